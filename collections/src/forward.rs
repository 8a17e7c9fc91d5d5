//! Methods of the views of maps and sets.

/// Defines methods of a view, each of which calls one of the same name: `get(key: &K) -> Option<V>;` is
/// [`CopyMap::get`](crate::CopyMap::get) by `Operations::get(view, key)`, if `CopyMap: |view| [Operations(view, ..)];`
/// precedes it.
macro_rules! forward {
    ($of:ident: |$view:ident| $call:tt; $(
        $(#[$more:meta])*
        $name:ident $([$($generics:tt)+])? ($($arg:ident: $type:ty),*) $(-> $result:ty)? $(where [$($bounds:tt)+])?;
    )+) => { $(
        #[doc = concat!("[`", stringify!($of), "::", stringify!($name), "`].")]
        $(#[$more])*
        #[inline]
        #[track_caller]
        pub fn $name $(<$($generics)+>)? (&self $(, $arg: $type)*) $(-> $result)? $(where $($bounds)+)? {
            let $view = self;
            forward!($call $name($($arg),*))
        }
    )+ };
    ([$to:ident($on:expr, .. $(, $last:expr)?)] $name:ident($($arg:ident),*)) => {
        $to::$name($on $(, $arg)* $(, $last)?)
    };
}
pub(crate) use forward;
