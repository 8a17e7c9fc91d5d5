//! The stacks of the threads that run destructors: as large as those of the threads that retire.

use std::env;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use support::prelude::*;

const MIB: usize = 1 << 20;

fn own_stack() -> usize {
    // SAFETY: attributes are plain data, initialized by pthread_getattr_np before use and destroyed after it.
    unsafe {
        let (mut attributes, mut size): (libc::pthread_attr_t, _) = (mem::zeroed(), 0);
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &mut attributes), 0);
        assert_eq!(libc::pthread_attr_getstacksize(&attributes, &mut size), 0);
        libc::pthread_attr_destroy(&mut attributes);
        size
    }
}

#[test]
fn worker_has_the_largest_stack_that_applies() {
    // The limit and `RUST_MIN_STACK`, and the worker's stack, in MiB.
    const CASES: [([Option<usize>; 2], usize); 6] = [
        ([Some(1), None], 2),
        ([Some(1), Some(24)], 24),
        ([Some(16), None], 16),
        ([Some(16), Some(24)], 24),
        ([None, None], 64),
        // There is no room for so much.
        ([Some(16), Some(1 << 30)], 2),
    ];
    let Some(case) = child::variant() else {
        return (0..CASES.len())
            .for_each(|case| child::run(worker_has_the_largest_stack_that_applies, &case.to_string(), None));
    };
    let _running = deadline();
    let ([limit, variable], expected) = CASES[case.parse::<usize>().expect("a number")];
    let maximum = getrlimit(Resource::Stack).maximum;
    let current = limit.map(|mib| (mib * MIB) as u64).or(maximum);
    setrlimit(Resource::Stack, Rlimit { current, maximum }).expect("no more than the maximum");
    if let Some(mib) = variable {
        // SAFETY: the other thread, which sleeps, does not look at the environment.
        unsafe { env::set_var("RUST_MIN_STACK", (mib * MIB).to_string()) };
    }
    let (sender, receiver) = channel();
    rcu::call(move || sender.send(own_stack()).expect("the test listens"));
    let stack = receiver.recv().expect("the callback runs");
    assert_eq!((stack + MIB / 2) / MIB, expected, "{stack} bytes");
}
