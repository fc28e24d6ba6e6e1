//! Tells the crate how it is optimised, so that reports can say when exploring is slow for that
//! reason alone.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo::rustc-env=EVERHOLD_OPT_LEVEL={level}");
}
