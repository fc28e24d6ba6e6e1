//! `everhold demo`: tours of Everhold, each on a bundled system.
//!
//! - `find`: bugs found, shrunk and explained.
//! - `hosts`: a program as it is, on a simulated host, and a bug found in it.
//! - `infer`: properties inferred, and then used to find a bug.
//! - `perf`: a slow execution explained.
//! - `watch`: a live cluster watched, and a violation caught.
//! - `attach`: processes of others observed from outside; only when it is asked for.

mod attach;
mod find;
mod hosts;
mod infer;
mod perf;
mod watch;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use everhold_report::Page;

use crate::args::{DemoArgs, TourName};
use crate::exit::Code;
use crate::hint;

/// The results of a tour.
struct Seen {
    /// The finding of the tour, as a file of HTML.
    page: Option<String>,
    interrupted: bool,
}

impl Seen {
    fn of(page: &Page, interrupted: bool) -> Seen {
        Seen { page: Some(page.html()), interrupted }
    }
}

/// A tour: its subject and the function that runs it.
struct Tour {
    name: TourName,
    title: &'static str,
    run: fn(&DemoArgs, &mut dyn Write) -> Result<Seen>,
}

const TOURS: [Tour; 6] = [
    Tour {
        name: TourName::Find,
        title: "bugs found, shrunk and explained: the storage system of P# (FAST 2016)",
        run: find::run,
    },
    Tour {
        name: TourName::Hosts,
        title: "a program as it is, on a simulated host: threads, sockets and files of `std`",
        run: hosts::run,
    },
    Tour {
        name: TourName::Infer,
        title: "properties that nobody wrote, and a bug found with them",
        run: infer::run,
    },
    Tour {
        name: TourName::Perf,
        title: "a slow execution explained: Bamboo, with a bug that MacePC found (FSE 2010)",
        run: perf::run,
    },
    Tour {
        name: TourName::Watch,
        title: "a live cluster on loopback, watched: the lock service of D³S (NSDI 2008)",
        run: watch::run,
    },
    Tour {
        name: TourName::Attach,
        title: "three etcd processes as they are, attached to and watched",
        run: attach::run,
    },
];

pub(crate) fn run(args: &DemoArgs) -> Result<Code> {
    // What needs root and a program of others runs only when it is asked for.
    let is_chosen = |tour: &&Tour| match args.tour {
        Some(name) => name == tour.name,
        None => tour.name != TourName::Attach,
    };
    let chosen: Vec<&Tour> = TOURS.iter().filter(is_chosen).collect();
    let mut out = io::stdout().lock();
    let mut pages = Vec::new();
    for tour in chosen {
        let begin = Instant::now();
        let name = tour.name.word();
        writeln!(out, "everhold demo {name} · {}\n", tour.title)?;
        let seen = (tour.run)(args, &mut out)?;
        if let Some(page) = &seen.page {
            let page = write_page(&name, page)?;
            let seconds = begin.elapsed().as_secs_f64();
            writeln!(out, "Report     {} (one file, {seconds:.1} s)\n", page.display())?;
            pages.push(page);
        }
        if seen.interrupted {
            return Ok(Code::Interrupted);
        }
    }
    out.flush()?;
    if let Some(page) = pages.last() {
        hint::next(&format!("everhold view {}", hint::quoted(&page.display().to_string())));
    }
    Ok(Code::Holds)
}

fn write_page(name: &str, page: &str) -> Result<PathBuf> {
    let path = Path::new("target/everhold").join(format!("demo-{name}")).join("report.html");
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        fs::write(&path, page)
    };
    write().with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(path)
}
