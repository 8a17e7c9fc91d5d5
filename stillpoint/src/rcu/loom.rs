//! Sections, pointers and retirement under loom, for models of programs' own structures: `docs/model-checking.md`
//! says how to use it.
//!
//! The pointers, the sections, the hazard pointers, the fence and the grace periods are the library's own sources.
//! What is behind them differs. A domain has no worker, queue or limits: a thread frees what it has retired when it
//! gives up its last guard or hazard pointer, or at once if it has none, after a grace period of its own. What a
//! hazard pointer of another thread protects then, it tries again the next time.
//!
//! A thread is on its processor, where heavy fences interrupt it, while it has guards or hazard pointers.

mod atomic;
mod exchange_error;
pub mod published_ptr;

mod guard {
    pub use super::Global;
}

#[path = "../domain/options.rs"]
mod options;

use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use std::cell::RefCell;

pub use self::atomic::Atomic;
pub use self::exchange_error::CompareExchangeError;
pub use self::options::DeferOptions;
use crate::grace_period::engine::Engine;
pub use crate::pointer::owned::Owned;
pub use crate::pointer::shared::{Pointer, Shared};
use crate::readers::sections::protocol::ReaderProtocol;
use crate::readers::sections::reader::{ExitPath, Reader};
use crate::readers::sections::scan::ThreadReaders;
use crate::slots::pointers::protected;
use crate::sync::model::{get_held, holds, put_held};

/// What a domain has, in one execution of a model.
#[derive(Debug)]
pub struct State {
    engine: Engine<ThreadReaders<()>>,
    has_hazards: bool,
}

impl State {
    pub(crate) fn new(protocol: ReaderProtocol) -> Self {
        let has_hazards = protocol == ReaderProtocol::Hazards;
        Self { engine: Engine::new(ThreadReaders::new(protocol), || "Global"), has_hazards }
    }

    /// Registers the calling thread.
    pub(crate) fn claim(&self) -> &'static Reader {
        self.engine.readers().registry().claim().expect("there is memory")
    }
}

/// A retired node, the function that frees it, and its domain.
type Retired = (*mut (), unsafe fn(*mut ()), &'static State);

loom::thread_local! {
    /// What the thread has retired, and not freed.
    static RETIRED: RefCell<Vec<Retired>> = RefCell::default();
}

/// The part of the library's trait that models have.
pub trait Domain: Copy + fmt::Debug + 'static {
    /// A guard.
    type Section;
    /// As in the library.
    type Hazards;

    #[doc(hidden)]
    fn state() -> &'static State;

    /// The reader of the calling thread.
    #[doc(hidden)]
    fn reader() -> &'static Reader;

    /// As in the library.
    ///
    /// # Safety
    ///
    /// As in the library.
    unsafe fn retire_shared<T: Send + 'static>(&self, node: Shared<'_, T>, _options: DeferOptions) {
        unsafe fn free<T>(word: *mut ()) {
            // SAFETY: no thread uses the node any more.
            drop(unsafe { Owned::<T>::from_word(word) });
        }
        if !node.is_null() {
            let retired: Retired = (node.with_tag(0).into_word(), free::<T>, Self::state());
            RETIRED.with(|list| list.borrow_mut().push(retired));
            if !holds() {
                reclaim();
            }
        }
    }
}

/// Frees what the calling thread has retired. It has no guard or hazard pointer.
pub(crate) fn reclaim() {
    let mut waited_in = ptr::null();
    for (node, free, domain) in RETIRED.with(RefCell::take) {
        if !ptr::eq(domain, waited_in) {
            domain.engine.synchronize(None);
            waited_in = domain;
        }
        if domain.has_hazards && protected().contains(&node.addr()) {
            RETIRED.with(|list| list.borrow_mut().push((node, free, domain)));
        } else {
            // SAFETY: a grace period has ended since it was retired, and no hazard pointer protects it.
            unsafe { free(node) };
        }
    }
}

/// A section. See the library's `rcu::Guard`.
#[must_use = "the section ends when the guard is dropped"]
#[derive(Debug)]
pub struct Guard<D: Domain = Global>(PhantomData<(*mut (), D)>);

impl<D: Domain> Guard<D> {
    pub(crate) fn enter() -> Self {
        get_held();
        let reader = D::reader();
        if !reader.try_enter(D::state().engine.readers().counter()) {
            reader.nest();
        }
        Self(PhantomData)
    }
}

impl<D: Domain> Drop for Guard<D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let reader = D::reader();
        if reader.leave() == ExitPath::Slow {
            D::state().engine.readers().exit_slow(reader);
        }
        if put_held() {
            reclaim();
        }
    }
}

/// Defines the domain `Global` of a module.
macro_rules! modelled_domain {
    ($protocol:ident, $hazards:ty) => {
        /// The domain of this module. See the library's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Global;

        const _: () = {
            use crate::rcu::{Domain, Guard, State};
            use crate::readers::sections::{protocol::ReaderProtocol, reader::Reader};

            loom::lazy_static! {
                static ref STATE: State = State::new(ReaderProtocol::$protocol);
            }

            loom::thread_local! {
                static READER: &'static Reader = STATE.claim();
            }

            impl Domain for Global {
                type Section = Guard<Self>;
                type Hazards = $hazards;

                fn state() -> &'static State {
                    &STATE
                }

                fn reader() -> &'static Reader {
                    READER.with(|reader| *reader)
                }
            }

            impl Global {
                /// Begins a section.
                pub fn enter() -> Guard<Self> {
                    Guard::enter()
                }
            }
        };
    };
}
pub(crate) use modelled_domain;

modelled_domain!(Sections, ());

/// Begins a section of [`Global`].
pub fn enter() -> Guard {
    Guard::enter()
}
