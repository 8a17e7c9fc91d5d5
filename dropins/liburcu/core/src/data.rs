//! Data under liburcu's names.
//!
//! Defined in assembly, and declared as foreign in Rust: a program may have a copy of each (`R_X86_64_COPY`), which
//! is then the variable, so all code must take the address from the global offset table.

/// Defines `struct urcu_gp`, with the counter 1.
#[macro_export]
macro_rules! gp {
    ($name:ident) => {
        core::arch::global_asm!(
            ".data",
            ".balign 128",
            concat!(".globl ", stringify!($name)),
            concat!(".type ", stringify!($name), ",@object"),
            concat!(".size ", stringify!($name), ",128"),
            concat!(stringify!($name), ":"),
            ".quad 1",
            ".zero 120",
            ".text",
        );

        unsafe extern "C" {
            safe static $name: $crate::inlined::Gp;
        }
    };
}

/// Defines a variable of zeros in a section.
#[macro_export]
macro_rules! zeros {
    ($binding:literal, $name:literal, $section:literal, $size:literal, $alignment:literal) => {
        core::arch::global_asm!(
            concat!(".section ", $section, ",@nobits"),
            concat!(".balign ", $alignment),
            concat!($binding, " ", $name),
            concat!(".type ", $name, ",@object"),
            concat!(".size ", $name, ",", $size),
            concat!($name, ":"),
            concat!(".zero ", $size),
            ".text",
        );
    };
}

/// Defines the functions `found_own` and `set_own_pointer` for a pointer of the package `self`, and `thread_address`,
/// the address of a thread-local variable of this library.
#[macro_export]
macro_rules! thread_pointer {
    ($variable:literal, $pointer:literal) => {
        /// Returns the calling thread's reader if the pointer to it is set.
        #[inline(always)]
        fn found_own<'a>() -> Option<&'a $crate::inlined::InlinedReader> {
            let own: *const $crate::inlined::InlinedReader;
            // SAFETY: reads a thread-local variable: null, or the thread's own reader, which lives as long as it
            // does.
            unsafe {
                core::arch::asm!(
                    concat!("mov {0}, qword ptr [rip + ", $pointer, "@GOTTPOFF]"),
                    "mov {0}, qword ptr fs:[{0}]",
                    out(reg) own,
                    options(nostack, readonly, preserves_flags),
                );
                own.as_ref()
            }
        }

        fn set_own_pointer(own: *const $crate::inlined::InlinedReader) {
            // SAFETY: writes a thread-local variable, which only these functions use.
            unsafe {
                core::arch::asm!(
                    concat!("mov {0}, qword ptr [rip + ", $pointer, "@GOTTPOFF]"),
                    "mov qword ptr fs:[{0}], {1}",
                    out(reg) _,
                    in(reg) own,
                    options(nostack, preserves_flags),
                );
            }
        }

        fn thread_address<T>() -> *mut T {
            let address;
            // SAFETY: the loader's sequence for the address of a thread-local variable.
            unsafe {
                core::arch::asm!(
                    concat!("lea rax, [rip + ", $variable, "@tlsdesc]"),
                    concat!("call qword ptr [rax + ", $variable, "@tlscall]"),
                    "add rax, qword ptr fs:[0]",
                    out("rax") address,
                    clobber_abi("C"),
                );
            }
            address
        }
    };
}

/// Defines the thread-local reader of a flavor, and the function `own`, which returns the calling thread's. `pointer`
/// is the flavor's pointer of the package `self`.
#[macro_export]
macro_rules! thread_reader {
    ($reader:literal, $pointer:literal) => {
        $crate::zeros!(".globl", $reader, ".tbss,\"awT\"", "256", "128");
        $crate::thread_pointer!($reader, $pointer);

        #[inline(always)]
        fn own<'a>() -> &'a $crate::inlined::InlinedReader {
            found_own().unwrap_or_else(find_own)
        }

        /// Sets the pointer to the calling thread's reader.
        #[cold]
        #[inline(never)]
        fn find_own<'a>() -> &'a $crate::inlined::InlinedReader {
            let own = thread_address();
            set_own_pointer(own);
            // SAFETY: the reader lives as long as the thread.
            unsafe { &*own }
        }
    };
}

/// Calls a function when the library is loaded: before the constructors of a program that it is linked into.
#[macro_export]
macro_rules! constructor {
    ($function:path) => {
        const _: () = {
            extern "C" fn call() {
                $function();
            }
            #[used]
            // SAFETY: the section is an array of such functions, which the C library calls.
            #[unsafe(link_section = ".init_array.00099")]
            static CALL: extern "C" fn() = call;
        };
    };
}
