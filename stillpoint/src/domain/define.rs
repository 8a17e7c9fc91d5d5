//! The macros that define domains that are types.

/// Defines an isolated domain of [`rcu`](crate::rcu): a type without data, with readers and grace periods of its own.
///
/// ```
/// use stillpoint::Domain;
///
/// stillpoint::domain! {
///     /// Sessions of the connection table.
///     pub struct Sessions;
/// }
///
/// drop(Sessions::enter());
/// Sessions.synchronize();
/// ```
#[macro_export]
macro_rules! domain {
    ($(#[$attr:meta])* $vis:vis struct $name:ident;) => {
        $crate::static_domain! { rcu $(#[$attr])* $vis struct $name; }
    };
}

/// Defines a type without data, and the state of its domain. The caller gives the kind; the rest is here, because the
/// lint that forbids `unsafe` to a program does not see what is in a macro that the program calls.
#[doc(hidden)]
#[macro_export]
macro_rules! static_domain {
    (@protocol rcu) => { $crate::rcu::ReaderProtocol::Sections };
    (@protocol hazard) => { $crate::rcu::ReaderProtocol::Hazards };
    (@protocol qsbr) => { $crate::rcu::ReaderProtocol::Qsbr };
    (@section rcu $name:ident) => { $crate::rcu::Guard<$name> };
    (@section hazard $name:ident) => { $crate::rcu::Guard<$name> };
    (@section qsbr $name:ident) => { $crate::qsbr::Handle<$name> };
    (@within rcu $name:ident $f:ident) => {
        $f(::core::option::Option::Some(&$crate::rcu::Guard::<$name>::enter()))
    };
    (@within hazard $name:ident $f:ident) => { $crate::static_domain!(@within rcu $name $f) };
    (@within qsbr $name:ident $f:ident) => { $f(::core::option::Option::None) };
    (@hazards hazard) => {
        type Hazards = $crate::hazard::HazardPointer;

        #[inline(always)]
        fn hazards() -> ::core::option::Option<&'static $crate::rcu::HazardState> {
            static HAZARDS: $crate::rcu::HazardState = $crate::rcu::HazardState::initial();
            ::core::option::Option::Some(&HAZARDS)
        }
    };
    (@hazards $kind:tt) => {
        type Hazards = ();
    };
    (@own hazard $name:ident) => { $crate::static_domain!(@own rcu $name); };
    (@own rcu $name:ident) => {
        // SAFETY: a guard ends its section when it is dropped.
        unsafe impl $crate::EnterSection for $name {
            type Guard<'a> = $crate::rcu::Guard<Self>;

            #[inline(always)]
            #[track_caller]
            fn enter_section(&self) -> $crate::rcu::Guard<Self> {
                $crate::rcu::Guard::enter()
            }
        }

        #[allow(dead_code)]
        impl $name {
            /// Begins a read-side critical section, which lasts until the guard is dropped.
            #[inline(always)]
            #[track_caller]
            pub fn enter() -> $crate::rcu::Guard<Self> {
                $crate::rcu::Guard::enter()
            }

            /// Registers the calling thread now, not when it first reads.
            #[track_caller]
            pub fn register() {
                $crate::rcu::Guard::<Self>::register();
            }

            /// Hints that the calling thread will not read for a while: see `rcu::hint_idle`.
            pub fn hint_idle() {
                $crate::rcu::Guard::<Self>::hint_idle();
            }

            /// Returns `true` inside a read-side critical section of the domain.
            pub fn in_read_section() -> bool {
                $crate::rcu::Guard::<Self>::in_read_section()
            }
        }
    };
    (@own qsbr $name:ident) => {
        #[allow(dead_code)]
        impl $name {
            /// Registers the calling thread, which is online from now on.
            #[track_caller]
            pub fn register() -> $crate::qsbr::Handle<Self> {
                $crate::qsbr::Handle::register()
            }

            /// Returns `true` if the calling thread has a handle that is online.
            pub fn is_online() -> bool {
                $crate::qsbr::Handle::<Self>::is_online()
            }
        }
    };
    ($kind:tt $(#[$attr:meta])* $vis:vis struct $name:ident$( = $display:literal)?;) => {
        $(#[$attr])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        $vis struct $name;

        // SAFETY: the statics below belong to this type alone. A guard of `rcu` is an open section; a handle of
        // `qsbr` that is borrowed cannot report a quiescent state.
        unsafe impl $crate::rcu::StaticDomain for $name {
            const INSTANCE: &'static Self = &Self;
            const PROTOCOL: $crate::rcu::ReaderProtocol = $crate::static_domain!(@protocol $kind);
            $(
                fn name() -> &'static str {
                    $display
                }
            )?
            type Section = $crate::static_domain!(@section $kind $name);
            $crate::static_domain!(@hazards $kind);

            #[inline(always)]
            fn shared() -> &'static $crate::rcu::DomainState {
                static SHARED: $crate::rcu::DomainState = $crate::rcu::DomainState::new::<$name>();
                &SHARED
            }

            #[inline(always)]
            fn with_thread_state<R>(f: impl FnOnce(&$crate::rcu::ThreadState) -> R) -> R {
                $crate::with_thread_variable!(
                    $crate::rcu::ThreadState = $crate::rcu::ThreadState::initial(),
                    late = $crate::rcu::ThreadState::ended(),
                    // SAFETY: the state is the calling thread's.
                    end = |state| unsafe { $crate::rcu::ThreadState::end::<$name>(state) },
                    f
                )
            }

            fn with_section<R>(f: impl FnOnce(::core::option::Option<&Self::Section>) -> R) -> R {
                $crate::static_domain!(@within $kind $name f)
            }
        }

        $crate::static_domain!(@own $kind $name);
    };
}
