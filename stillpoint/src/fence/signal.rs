//! The signal backend: what user-space RCU did before `membarrier(2)`. Built with the feature `signal-fence` only.
//!
//! A thread is registered from [`register`] until it ends. [`fence`] requests a full fence from each registered thread,
//! by a flag and a signal. The handler executes the fence and answers by counting down; the last answer wakes the
//! sender. A thread that is not registered executes full fences itself.
//!
//! # Invariants
//!
//! 1. A [`Member`] is never freed. It belongs to the thread with its id, and no two members have the same id.
//! 2. The list is locked from the first request to the last answer. So a thread that unregisters still has the signal
//!    unblocked, and answers before.
//! 3. A thread that ended without unregistering needs no fence: what it did comes before its end. The sender answers
//!    for it if its id is unknown to the kernel, when the signal is sent or after. If the id is in use again, the new
//!    thread's handler answers.
//! 4. One heavy fence runs at a time ([`super::SHARED`]), so `UNANSWERED` has one user.
//! 5. The thread that clears a member's `asked` answers for it, once: a signal from elsewhere answers nothing.
//! 6. A thread that has unregistered never registers again. Its later destructors execute full fences.

use core::alloc::Layout;
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::num::NonZeroU32;
use core::ptr;
use core::sync::atomic::{self, AtomicBool, AtomicI32, AtomicPtr, Ordering::*};
use std::alloc::{GlobalAlloc, System};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::reason::BackendReason;
use crate::sync::{ForkSafe, Futex};
use crate::sys::{rt_signal, thread::tid, tls_destructor::AtThreadExit};

/// How often a sleeping sender looks for threads that have ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A thread's place in the list.
#[derive(Debug)]
struct Member {
    /// The thread's id; 0 while the place is free.
    tid: AtomicI32,
    /// The thread has not answered yet.
    asked: AtomicBool,
    next: *const Member,
}

// SAFETY: `next` never changes once other threads can see the member.
unsafe impl Sync for Member {}

/// The list, which changes under the lock.
static FIRST: AtomicPtr<Member> = AtomicPtr::new(ptr::null_mut());

static LOCK: ForkSafe<Mutex<()>> = ForkSafe::new(Mutex::new(()));

/// Answers that the sender waits for, and one more while it sends requests.
static UNANSWERED: Futex = Futex::new(0);

/// The signal in use.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

static AT_EXIT: AtThreadExit = AtThreadExit::new(unregister);

thread_local! {
    /// The calling thread's place.
    static OWN: Cell<Option<&'static Member>> = const { Cell::new(None) };
    /// The calling thread has unregistered.
    static HAS_ENDED: Cell<bool> = const { Cell::new(false) };
}

fn lock() -> MutexGuard<'static, ()> {
    // A panic under the lock does not leave the list half-changed.
    LOCK.get().lock().unwrap_or_else(PoisonError::into_inner)
}

fn members() -> impl Iterator<Item = &'static Member> + Clone {
    // Acquire: the member is complete; pairs with the Release in `append`.
    let first = FIRST.load(Acquire);
    // SAFETY: members are never freed (1).
    core::iter::successors(unsafe { first.as_ref() }, |member| unsafe { member.next.as_ref() })
}

/// Returns the members with the id `tid`: one at most, unless it is 0.
fn members_with(tid: i32) -> impl Iterator<Item = &'static Member> {
    // Relaxed: changes under the lock, or by a thread that answers.
    members().filter(move |member| member.tid.load(Relaxed) == tid)
}

/// Installs the handler. Returns the signal.
pub(super) fn install() -> Result<i32, BackendReason> {
    // SAFETY: the handler executes a fence, atomic operations and system calls.
    let signal = unsafe { rt_signal::claim(on_signal) }.ok_or(BackendReason::NoSignalFree)?;
    SIGNAL.store(signal, Relaxed);
    Ok(signal)
}

extern "C" fn on_signal(_signal: c_int) {
    // The fence that was requested: it orders what the interrupted thread did before what it does after.
    atomic::fence(SeqCst);
    match OWN.get() {
        Some(own) => own.answer(),
        // Sent to an earlier thread with this id (3).
        None => members_with(tid()).for_each(Member::answer_for_ended),
    }
}

/// Returns `true` if a compiler fence is a light fence in this thread.
pub(super) fn is_registered() -> bool {
    OWN.get().is_some()
}

/// Registers the calling thread. Returns `false` if that fails, or the thread is about to end: it then executes full
/// fences.
pub(super) fn register() -> bool {
    if is_registered() {
        return true;
    }
    // SAFETY: `unregister` ignores its argument; any non-null pointer makes the C library call it.
    if HAS_ENDED.get() || !unsafe { AT_EXIT.arm(ptr::without_provenance_mut(1)) } {
        return false;
    }
    rt_signal::unblock(SIGNAL.load(Relaxed));
    let tid = tid();
    let locked = lock();
    // First the entry of an earlier thread with this id (1).
    let place = members_with(tid).chain(members_with(0)).next().or_else(Member::append);
    if let Some(own) = place {
        own.tid.store(tid, Relaxed);
    }
    // Until here the thread executed full fences. The lock orders them before or after a heavy fence that sent it no
    // request.
    OWN.set(place);
    drop(locked);
    place.is_some()
}

/// Forgets all threads but the calling one, which has another id: for the child of a fork.
///
/// # Safety
///
/// The calling thread is the only one in the process, and was not within another function of this module when it
/// forked.
pub(super) unsafe fn reset_in_child() {
    // SAFETY: the caller's contract; references to the lock live no longer than a call of a function.
    unsafe { LOCK.overwrite(Mutex::new(())) };
    let signal = SIGNAL.load(Relaxed);
    if signal != 0 {
        // The kernel copies handlers before memory, and another thread may have installed this one in between.
        // SAFETY: as in `install`.
        unsafe { rt_signal::install(signal, on_signal) };
    }
    // The copies of the parent's members belong to the parent's threads, which answer there.
    FIRST.store(ptr::null_mut(), Relaxed);
    if OWN.take().is_some() {
        // If that fails, the thread executes full fences.
        register();
    }
}

/// Unregisters the calling thread, at its end. From then on it executes full fences.
unsafe extern "C" fn unregister(_: *mut c_void) {
    HAS_ENDED.set(true);
    let _locked = lock();
    if let Some(own) = OWN.take() {
        own.tid.store(0, Relaxed);
    }
}

/// Executes a full fence on every registered thread, and on this one.
pub(super) fn fence() {
    atomic::fence(SeqCst);
    let signal = SIGNAL.load(Relaxed);
    let locked = lock();
    // One more than the requests, so that no answer wakes this thread before all have been sent.
    UNANSWERED.store(1, Relaxed);
    let mut failure = None;
    for member in members() {
        let tid = member.tid.load(Relaxed);
        if tid == 0 || OWN.get().is_some_and(|own| ptr::eq(own, member)) {
            continue;
        }
        // Relaxed: the Release below orders it.
        UNANSWERED.fetch_add(1, Relaxed);
        // Release: publishes the count that includes this thread; pairs with the Acquire in `answer`.
        member.asked.store(true, Release);
        if let Err(error) = send(tid, signal) {
            if error.raw_os_error() == Some(libc::ESRCH) {
                member.answer_for_ended();
            } else {
                // Reported once all requests have been answered.
                failure = Some(error);
                member.answer();
            }
        }
    }
    // Acquire, here and below: what those threads did before their answers; pairs with the Release in `answer`.
    let mut left = UNANSWERED.fetch_sub(1, Acquire) - 1;
    while left != 0 {
        UNANSWERED.wait_timeout(left, NonZeroU32::MAX, LOOK_EVERY);
        if UNANSWERED.load(Acquire) != 0 {
            members().filter(|member| member.has_ended()).for_each(Member::answer_for_ended);
        }
        left = UNANSWERED.load(Acquire);
    }
    drop(locked);
    // Orders what threads did before their end, which the kernel has reported (3).
    atomic::fence(SeqCst);
    if let Some(error) = failure {
        panic!("signal {signal}, on which the fence backend relies, cannot be sent: {error}");
    }
}

/// Sends the signal; retries while the system has no room for another (`RLIMIT_SIGPENDING`).
fn send(tid: i32, signal: c_int) -> io::Result<()> {
    loop {
        match rt_signal::send(tid, signal) {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => thread::yield_now(),
            sent => return sent,
        }
    }
}

impl Member {
    /// Appends a free place to the list, which is locked. Returns `None` without memory.
    ///
    /// Its memory is not the global allocator's: that may contain a reader, and re-enter this module; and in the child
    /// of a fork it may not work yet.
    fn append() -> Option<&'static Self> {
        let next = FIRST.load(Relaxed);
        let member = Self { tid: AtomicI32::new(0), asked: AtomicBool::new(false), next };
        // SAFETY: the layout has a size. The place is this thread's until it is published, and good for the value.
        unsafe {
            let place = System.alloc(Layout::new::<Self>()).cast::<Self>();
            if place.is_null() {
                return None;
            }
            place.write(member);
            // Release: publishes the member; pairs with the Acquire in `members`.
            FIRST.store(place, Release);
            Some(&*place)
        }
    }

    /// Answers, if there is a request.
    fn answer(&self) {
        // Acquire: the count that includes this thread; pairs with the Release in `fence`.
        if self.asked.swap(false, Acquire) {
            // Release: publishes what the thread did; pairs with the Acquire in `fence`, of the whole chain of answers.
            if UNANSWERED.fetch_sub(1, Release) == 1 {
                UNANSWERED.wake(1, NonZeroU32::MAX);
            }
        }
    }

    /// Returns `true` if the thread has ended without an answer.
    fn has_ended(&self) -> bool {
        let exists = |tid| rt_signal::send(tid, 0).is_ok();
        self.asked.load(Relaxed) && !exists(self.tid.load(Relaxed))
    }

    /// Frees the place of a thread that has ended, and answers for it.
    fn answer_for_ended(&self) {
        self.tid.store(0, Relaxed);
        self.answer();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use support::deadline::deadline;

    /// Held by each test: they share the list.
    static RUNNING: Mutex<()> = Mutex::new(());

    fn begin() -> MutexGuard<'static, ()> {
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if SIGNAL.load(Relaxed) == 0 {
            assert!(install().is_ok(), "a signal is free");
        }
        running
    }

    #[test]
    fn place_of_a_thread_that_has_ended_is_free() {
        let (_running, _begun) = (deadline(), begin());
        for _ in 0..3 {
            assert_eq!(members_with(0).count(), members().count());
            thread::spawn(|| assert!(register())).join().expect("no panic");
        }
        assert_eq!(members().count(), 1);
    }

    #[test]
    fn fence_waits_for_each_answer() {
        let (_running, _begun) = (deadline(), begin());
        for _ in 0..3 {
            let (ready, is_ready) = channel();
            let has_answered = AtomicBool::new(false);
            thread::scope(|s| {
                let answering = s.spawn(|| {
                    assert!(register());
                    // SAFETY: the set is plain data, initialized before use.
                    let mask = |how| unsafe {
                        let mut own = core::mem::zeroed();
                        libc::sigemptyset(&mut own);
                        libc::sigaddset(&mut own, SIGNAL.load(Relaxed));
                        libc::pthread_sigmask(how, &own, ptr::null_mut());
                    };
                    mask(libc::SIG_BLOCK);
                    ready.send(()).expect("the test waits");
                    // A leader that does not wait has returned by then.
                    thread::sleep(Duration::from_millis(50));
                    has_answered.store(true, Relaxed);
                    mask(libc::SIG_UNBLOCK);
                });
                is_ready.recv().expect("the thread is ready");
                fence();
                assert!(has_answered.load(Relaxed));
                // Its destructors have run then, too.
                answering.join().expect("no panic");
            });
        }
    }

    #[test]
    fn thread_with_a_reused_id_answers() {
        let (_running, _begun) = (deadline(), begin());
        // Ends without its destructors, and a thread that is not registered gets its id.
        static STALE: AtomicPtr<Member> = AtomicPtr::new(ptr::null_mut());
        extern "C" fn ends(_: *mut c_void) -> *mut c_void {
            assert!(register());
            STALE.store(OWN.get().map_or(ptr::null_mut(), |own| ptr::from_ref(own).cast_mut()), Release);
            // SAFETY: ends the thread, which nothing joins, without its destructors.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            ptr::null_mut()
        }
        assert!(crate::sys::thread::spawn(c"ends", ends, ptr::null_mut()));
        while STALE.load(Acquire).is_null() {
            thread::yield_now();
        }
        // SAFETY: members are never freed.
        let stale = unsafe { &*STALE.load(Acquire) };
        let (sender, receiver) = channel();
        let (stop, stopped) = channel::<()>();
        let other = thread::spawn(move || {
            sender.send(tid()).expect("the test waits");
            let _ = stopped.recv();
        });
        stale.tid.store(receiver.recv().expect("the thread sends its id"), Relaxed);
        fence();
        assert_eq!(stale.tid.load(Relaxed), 0);
        drop(stop);
        other.join().expect("no panic");
    }
}
