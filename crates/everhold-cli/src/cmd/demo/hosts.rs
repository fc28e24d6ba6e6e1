//! A program as it is, on a simulated host.

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#[path = "hosts/here.rs"]
mod here;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
mod here {
    use std::io::Write;

    use anyhow::Result;

    use super::super::Seen;
    use crate::args::DemoArgs;

    pub(in crate::cmd::demo) fn run(_: &DemoArgs, out: &mut dyn Write) -> Result<Seen> {
        writeln!(
            out,
            "Not here: programs run as they are on Linux on x86-64 with the GNU C library only.\n\
             Everything else of Everhold works on this machine; see docs/hosts.md.\n"
        )?;
        Ok(Seen { page: None, interrupted: false })
    }
}

pub(super) use here::run;
