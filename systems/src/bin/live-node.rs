//! A process that hosts nodes of a case study.
//!
//! ```text
//! live-node CONFIG BUG ID..    runs these nodes until standard input ends
//! ```
//!
//! The configuration's `system` selects the case study.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use everhold::prelude::NodeId;
use everhold_live::Config;
use everhold_systems::live::Case;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live-node: {error}");
            ExitCode::from(64)
        }
    }
}

fn run(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [config, bug, ids @ ..] = words else { return Err("live-node CONFIG BUG ID..".into()) };
    let config = Config::read(Path::new(config))?;
    let number = |word: &String| {
        word.parse().map(NodeId).map_err(|_| format!("`{word}` is not the number of a node"))
    };
    let ids = ids.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    let running = Case::find(&config.system)?.host(config, &ids, bug)?;
    // The parent process ends this one by closing its standard input, or by a signal.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(running.stop()?)
}
