//! Builds the C side of the liburcu peer, if its feature is on.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "liburcu")]
    liburcu::build();
}

#[cfg(feature = "liburcu")]
mod liburcu {
    use std::path::PathBuf;

    pub(super) fn build() {
        println!("cargo:rerun-if-changed=peers/liburcu.c");

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

        // Statically, so that the library is optimized as programs have it.
        for library in ["urcu-memb", "urcu-qsbr", "urcu-common"] {
            let found = find(&format!("lib{library}.a"));
            let folder = found.parent().expect("an absolute path of a file");
            println!("cargo:rustc-link-search=native={}", folder.display());
            println!("cargo:rustc-link-lib=static={library}");
        }
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
