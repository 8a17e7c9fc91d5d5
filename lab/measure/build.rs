//! Builds the C side of the liburcu peer, if its feature is on.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "liburcu")]
    liburcu::build();
}

#[cfg(feature = "liburcu")]
mod liburcu {
    use std::env;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// liburcu is linked statically, from a copy whose `syscall` references are renamed to a counting function of
    /// `peers/liburcu.c`. The linker's `--wrap=syscall` would count the calls of the Rust standard library too.
    const COUNTED: &str = "--redefine-sym=syscall=lab_urcu_syscall";

    pub(super) fn build() {
        println!("cargo:rerun-if-changed=peers/liburcu.c");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));

        // Not position independent in the sense of a shared library, so that thread-local variables cost readers one
        // instruction, as in any program that links liburcu.
        cc::Build::new()
            .file("peers/liburcu.c")
            .opt_level(2)
            .pic(false)
            .flag("-fPIE")
            .warnings(true)
            .extra_warnings(true)
            .compile("lab_urcu");

        println!("cargo:rustc-link-search=native={}", out.display());
        for flavor in ["memb", "qsbr"] {
            let original = find(&format!("liburcu-{flavor}.a"));
            let objcopy = env::var_os("OBJCOPY").unwrap_or_else(|| "objcopy".into());
            let status = Command::new(&objcopy)
                .arg(COUNTED)
                .arg(&original)
                .arg(out.join(format!("liburcu_{flavor}_counted.a")))
                .status()
                .unwrap_or_else(|error| panic!("cannot run {objcopy:?} (package binutils): {error}"));
            assert!(status.success(), "{objcopy:?} could not rewrite {}", original.display());
            println!("cargo:rustc-link-lib=static=urcu_{flavor}_counted");
        }
        println!("cargo:rustc-link-lib=static=urcu-cds");
        let common = find("liburcu-common.a");
        println!("cargo:rustc-link-search=native={}", common.parent().unwrap_or(Path::new("/")).display());
        println!("cargo:rustc-link-lib=static=urcu-common");
    }

    /// Asks the C compiler where a library of the distribution is.
    fn find(library: &str) -> PathBuf {
        let compiler = cc::Build::new().get_compiler();
        let output = compiler.to_command().arg(format!("-print-file-name={library}")).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run the C compiler: {error}"));
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        assert!(path.is_absolute(), "{library} is not installed (Debian: apt-get install liburcu-dev)");
        path
    }
}
