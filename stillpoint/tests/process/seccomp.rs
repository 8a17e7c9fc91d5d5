//! A kernel or a sandbox that denies `membarrier`, or the calls of a contended lock, to the process.

use std::os::unix::process::ExitStatusExt;

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
use stillpoint::fence::{self, Backend};
use stillpoint::lock::{Mutex, RwLock, RwLockUpgradableReadGuard};
use stillpoint::percpu::{self, ArcOwner, Mode, RefCount};
use support::prelude::*;
use support::threads::deny;

const ERRNOS: [(&str, i32); 2] = [("ENOSYS", libc::ENOSYS), ("EPERM", libc::EPERM)];

fn errno(name: &str) -> i32 {
    let known = ERRNOS.iter().find(|(known, _)| *known == name);
    known.expect("an errno of the list").1
}

/// Makes `membarrier` return an error in all threads from now on: every call, or those with one `command`.
fn deny_membarrier(errno: i32, command: Option<i32>) {
    let rule = |command: i32| {
        let equals = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, command as u64)
            .expect("a condition");
        SeccompRule::new(vec![equals]).expect("a rule")
    };
    deny(errno, [(libc::SYS_membarrier, command.map(rule).into_iter().collect())]);
    // SAFETY: the call takes no pointers.
    let query = unsafe { libc::syscall(libc::SYS_membarrier, command.unwrap_or(0), 0, 0) };
    assert_eq!(
        (query, std::io::Error::last_os_error().raw_os_error()),
        (-1, Some(errno)),
        "the filter works"
    );
}

/// Runs readers beside a writer that waits for grace periods, and then retires values without waiting.
fn workload() {
    own!(Own, DROPS);
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    let guard = Own::enter();
                    let drops = value.load(&guard).0;
                    let nested = Own::enter();
                    assert_eq!(drops.load(Acquire), 0, "dropped while it was read");
                    drop((guard, nested));
                }
            });
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(500) {
            // Each value has its own counter, so that a reader sees which value was dropped.
            let old = value.replace(Tracked::leaked()).wait();
            drop(old);
            let old = value.replace(Tracked::leaked());
            Own.synchronize();
            drop(old);
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(DROPS.load(Acquire), 1);
    drop(value.replace(Tracked(&DROPS)));
    drop(value.replace(Tracked::leaked()));
    until(|| DROPS.load(Acquire) >= 2);
    share_lock();
}

/// Runs readers beside a writer of a reader-writer lock whose gate opens between writes.
fn share_lock() {
    let pair = RwLock::new((0_u64, 0_u64));
    thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                while pair.read().0 < 50 {
                    let pair = pair.read();
                    assert_eq!(pair.0, pair.1, "written while it was read");
                }
            })
        });
        for _ in 0..50 {
            (0..4000).for_each(|_| drop(pair.read()));
            let mut pair = pair.write();
            pair.0 += 1;
            thread::yield_now();
            pair.1 += 1;
        }
        readers.into_iter().for_each(|reader| reader.join().expect("no assertion failed"));
    });
}

#[test]
fn denied_membarrier_falls_back_with_a_reason() {
    let Some(name) = child::variant() else {
        for (name, _) in ERRNOS {
            let test = denied_membarrier_falls_back_with_a_reason;
            child::run(test, name, None);
            child::run(test, name, Some("membarrier"));
        }
        return;
    };
    deny_membarrier(errno(&name), None);
    let report = fence::report();
    assert_eq!(report.backend(), Backend::SeqCst, "{report}");
    assert!(report.to_string().contains("membarrier has no PRIVATE_EXPEDITED command"), "{report}");
    workload();
    fence::heavy();
    assert!(fence::calls() > 0);
}

#[test]
fn report_names_the_denied_command() {
    let commands = [
        ("REGISTER_PRIVATE_EXPEDITED", libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED),
        ("PRIVATE_EXPEDITED", libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED),
    ];
    let Some(variant) = child::variant() else {
        for (command, _) in commands {
            for (errno, _) in ERRNOS {
                let test = report_names_the_denied_command;
                child::run(test, &format!("{command} {errno}"), None);
            }
        }
        return;
    };
    let (denied, name) = variant.split_once(' ').expect("a command and an errno");
    let command = commands.iter().find(|(name, _)| *name == denied).expect("a command of the list").1;
    deny_membarrier(errno(name), Some(command));
    let report = fence::report();
    assert_eq!(report.backend(), Backend::SeqCst, "{report}");
    let why = report.why().to_string();
    let all_are = why.contains("membarrier has no PRIVATE_EXPEDITED command");
    assert!(all_are || why.contains(&format!("membarrier({denied}) failed")), "{report}");
    workload();
}

#[test]
fn late_denial_panics_kills_and_leaks_what_they_count() {
    let Some(name) = child::variant() else {
        for (name, _) in ERRNOS {
            child::run(late_denial_panics_kills_and_leaks_what_they_count, name, None);
        }
        return;
    };
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: the call takes no pointers.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
    let interrupts = commands > 0
        && commands & i64::from(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) != 0
        && percpu::report().mode() == Mode::Rseq;
    let (count, owner) = (RefCount::new(), ArcOwner::new(Tracked(&DROPS)));
    count.get();
    let clone = ArcOwner::share(&owner);
    let taken_back = ArcOwner::new(Tracked(&DROPS));
    let its_clone = ArcOwner::share(&taken_back);
    deny_membarrier(errno(&name), None);
    let killed = catch_unwind(AssertUnwindSafe(|| count.kill()));
    match killed {
        Ok(_) => assert!(!interrupts, "the kill noticed nothing"),
        Err(panic) => assert!(interrupts && message(&*panic).contains("denies membarrier"), "{panic:?}"),
    }
    assert!(!count.try_get(), "killed, nevertheless");
    count.get();
    count.put();
    count.put();
    assert_eq!(count.is_zero(), !interrupts);
    drop(owner);
    drop(clone.clone());
    drop(clone);
    // A value that is not given back is leaked.
    let given = catch_unwind(AssertUnwindSafe(|| drop(ArcOwner::into_inner(taken_back))));
    assert_eq!(given.is_err(), interrupts);
    drop(its_clone);
    assert_eq!(DROPS.load(Relaxed), if interrupts { 0 } else { 2 });
    // Later counts are shared ones.
    let count = RefCount::new();
    count.get();
    assert!(count.kill());
    count.put();
    assert!(count.is_zero());
}

#[test]
fn late_denial_panics_writers_not_readers() {
    let Some(name) = child::variant() else {
        for (name, _) in ERRNOS {
            let test = late_denial_panics_writers_not_readers;
            child::run(test, name, None);
        }
        return;
    };
    stillpoint::domain! { struct Own; }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let _running = deadline();
    let chosen = fence::report().backend();
    let value = Rcu::new_in(Tracked(&DROPS), Own);
    let (stop, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !stop.load(Relaxed) {
                let guard = Own::enter();
                assert_eq!(value.load(&guard).0.load(Acquire), 0, "dropped while it was read");
                drop(guard);
                reads.fetch_add(1, Relaxed);
            }
        });
        let reads_go_on = || {
            let before = reads.load(Relaxed);
            until(|| reads.load(Relaxed) >= before + 1000);
        };
        reads_go_on();
        Own.synchronize();
        deny_membarrier(errno(&name), None);
        if chosen == Backend::SeqCst {
            eprintln!("not checked, as membarrier was denied before: {}", fence::report());
            Own.synchronize();
            return stop.store(true, Relaxed);
        }
        let denied = "membarrier, which worked when the fence backend was chosen, fails now";
        let waits: [fn(); 5] = [
            fence::heavy,
            || Own.synchronize(),
            || Rcu::new_in((), Own).replace(()).wait(),
            || GracePeriod::now_in(Own).wait(),
            // The poller waits, in another thread.
            || assert!(GracePeriod::now_in(Own).wait_timeout(Duration::MAX)),
        ];
        for wait in waits {
            for _ in 0..3 {
                let panic = catch_unwind(wait).expect_err("nothing orders the readers");
                assert!(message(&*panic).starts_with(denied), "{}", message(&*panic));
                reads_go_on();
            }
        }
        // Concurrent callers panic too.
        let callers = [(); 8].map(|()| scope.spawn(|| catch_unwind(|| Own.synchronize()).is_err()));
        assert!(callers.into_iter().all(|caller| caller.join().expect("the panic was caught")));
        // An upgrade that needs a fence panics, and leaves the lock as it was. So does a write with `lock_api` 0.5.
        let lock = RwLock::new(0);
        (0..4000).for_each(|_| drop(lock.read()));
        for _ in 0..3 {
            #[cfg(feature = "lock_api_05")]
            {
                use lock_api_05::RawRwLock;
                // SAFETY: the lock is not taken.
                let write = || _ = RawRwLock::lock_exclusive(unsafe { lock.raw() });
                let panic = catch_unwind(AssertUnwindSafe(write)).expect_err("no fence");
                assert!(message(&*panic).starts_with(denied), "{}", message(&*panic));
            }
            let upgrade = || drop(RwLockUpgradableReadGuard::upgrade(lock.upgradable_read()));
            let panic = catch_unwind(AssertUnwindSafe(upgrade)).expect_err("no fence");
            assert!(message(&*panic).starts_with(denied), "{}", message(&*panic));
            assert!(!lock.is_locked() && lock.try_upgradable_read().is_some());
            assert_eq!(*lock.read(), 0);
        }
        // No grace period can end, so no retired value is freed.
        for _ in 0..100 {
            drop(value.replace(Tracked(&DROPS)));
            reads_go_on();
        }
        assert_eq!(DROPS.load(Acquire), 0);
        stop.store(true, Relaxed);
        // Without readers a grace period needs no fence: from here on they may be freed.
        reader.join().expect("the reader does not panic");
    });
}

/// The only thread of the library must not sleep for readers: it tries grace periods.
#[test]
fn late_denial_reaches_futures_where_no_thread_can_be_started() {
    alone!();
    stillpoint::domain! { struct Own; }
    if fence::report().backend() == Backend::SeqCst {
        return eprintln!("not checked, as membarrier was denied before: {}", fence::report());
    }
    let stop = AtomicBool::new(false);
    let (entered, enters) = channel();
    let result = thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(Relaxed) {
                drop(Own::enter());
                _ = entered.send(());
            }
        });
        // Without a reader, no fence is needed.
        enters.recv().expect("it enters");
        drop(enters);
        let wait = || GracePeriod::now_in(Own).wait_timeout(Duration::MAX);
        assert!(wait());
        deny_threads();
        deny_membarrier(libc::EPERM, None);
        let result = catch_unwind(wait);
        stop.store(true, Relaxed);
        result
    });
    let panic = result.expect_err("nothing orders the readers");
    assert!(message(&*panic).starts_with("membarrier"), "{}", message(&*panic));
}

#[test]
fn late_denial_aborts_a_write_that_needs_a_fence() {
    if child::variant().is_none() {
        let child = child::ended(late_denial_aborts_a_write_that_needs_a_fence, "aborts", &[]);
        let stderr = String::from_utf8_lossy(&child.stderr);
        let is_denied =
            stderr.contains("membarrier, which worked when the fence backend was chosen, fails now");
        let not_checked = stderr.contains("not checked");
        assert!(not_checked || is_denied && child.status.signal() == Some(libc::SIGABRT), "{stderr}");
        return;
    }
    let _running = deadline();
    if fence::report().backend() == Backend::SeqCst {
        return eprintln!("not checked, as membarrier was denied before: {}", fence::report());
    }
    let lock = RwLock::new(0);
    (0..4000).for_each(|_| drop(lock.read()));
    deny_membarrier(libc::EPERM, None);
    // A guard of `lock_api` 0.4 takes its lock again in `unlocked`: it must not unwind without it.
    let _ = catch_unwind(AssertUnwindSafe(|| *lock.write() = 1));
}

#[test]
fn fallback_tolerates_a_late_filter() {
    let Some(backend) = child::variant() else {
        for backend in backends!().iter().filter(|backend| **backend != "membarrier") {
            let test = fallback_tolerates_a_late_filter;
            child::run(test, backend, Some(backend));
        }
        return;
    };
    assert_eq!(fence::report().backend().to_string(), backend);
    deny_membarrier(libc::EPERM, None);
    workload();
}

#[test]
fn contended_lock_needs_no_calls_of_the_scheduler() {
    let Some(name) = child::variant() else {
        for (name, _) in ERRNOS {
            child::run(contended_lock_needs_no_calls_of_the_scheduler, name, None);
        }
        return;
    };
    let calls = [libc::SYS_sched_yield, libc::SYS_sched_getaffinity, libc::SYS_sched_getscheduler];
    deny(errno(&name), calls.map(|call| (call, Vec::new())));
    let total = Mutex::new(0);
    in_threads(4, |_| {
        for n in 0..200 {
            let mut total = total.lock();
            *total += 1;
            if n % 10 == 0 {
                thread::sleep(Duration::from_micros(100));
            }
        }
    });
    assert_eq!(*total.lock(), 800);
}
