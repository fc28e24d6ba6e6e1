//! A process that hosts nodes of a Chord ring.
//!
//! ```text
//! chord-node CONFIG REACH ID..   runs these nodes, each with REACH neighbours on each side,
//!                                until standard input ends
//! ```

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use everhold::prelude::NodeId;
use everhold_live::Config;
use everhold_systems::chord::host;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chord-node: {error}");
            ExitCode::from(64)
        }
    }
}

fn run(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [config, reach, ids @ ..] = words else {
        return Err("chord-node CONFIG REACH ID..".into());
    };
    let ids = ids.iter().map(|id| id.parse().map(NodeId)).collect::<Result<Vec<_>, _>>()?;
    let running = host(Config::read(Path::new(config))?, &ids, reach.parse()?).start()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(running.stop()?)
}
