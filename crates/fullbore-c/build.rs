//! Gives the shared library its soname, which is the same as with cargo-c: `libfullbore.so.` and the
//! parts of the version that change when a program has to be built again.

fn main() {
    let part = |name: &str| std::env::var(name).expect("cargo sets it");
    let (major, minor) = (
        part("CARGO_PKG_VERSION_MAJOR"),
        part("CARGO_PKG_VERSION_MINOR"),
    );
    // Before 1.0, every minor version may change the interface.
    let abi = match major.as_str() {
        "0" => format!("0.{minor}"),
        _ => major,
    };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfullbore.so.{abi}");
    println!("cargo::rerun-if-changed=build.rs");
}
