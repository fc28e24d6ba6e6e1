//! A process that hosts Raft peers, and a client for them.
//!
//! ```text
//! raft-node CONFIG host ID..          runs these peers until standard input ends
//! raft-node CONFIG write ID COMMAND   asks a peer to write a number; prints its index
//! raft-node CONFIG read ID            prints what a peer has applied
//! raft-node CONFIG assert ID ADDRESS,.. INVARIANT TICKS|never PROBABILITY blocking|async
//!                                     runs a peer that asserts a property, and perhaps breaks it
//! ```

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use everhold::prelude::NodeId;
use everhold_live::host::Running;
use everhold_live::{Client, Config};
use everhold_systems::raft::{Asserted, Bug, Msg, codec, host};

const USAGE: &str = "raft-node CONFIG host ID.. | raft-node CONFIG write ID COMMAND | \
                     raft-node CONFIG read ID | raft-node CONFIG assert ..";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("raft-node: {error}");
            ExitCode::from(64)
        }
    }
}

fn run(words: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let [config, command, rest @ ..] = words else { return Err(USAGE.into()) };
    let config = Config::read(Path::new(config))?;
    match (*command, rest) {
        ("host", ids @ [_, ..]) => serve(config, ids),
        ("assert", words) => {
            until_input_ends(Asserted::parse(words)?.start(config, |line| println!("{line}"))?)
        }
        ("write", [id, command]) => {
            let answer = ask(&config, id, &Msg::Write(command.parse()?))?;
            println!("{answer:?}");
            Ok(())
        }
        ("read", [id]) => {
            let Msg::Applied(commands) = ask(&config, id, &Msg::Read)? else {
                return Err("that is not an answer to a read".into());
            };
            for (index, command) in commands {
                println!("{index} {command}");
            }
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

fn node(word: &str) -> Result<NodeId, Box<dyn std::error::Error>> {
    word.parse().map(NodeId).map_err(|_| format!("`{word}` is not the number of a node").into())
}

fn serve(config: Config, ids: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let ids = ids.iter().map(|id| node(id)).collect::<Result<Vec<_>, _>>()?;
    until_input_ends(host(config, &ids, Bug::None).start()?)
}

fn until_input_ends(running: Running) -> Result<(), Box<dyn std::error::Error>> {
    // The parent process ends this one by closing its standard input, or by a signal. Both are
    // safe, since no promise is made before it is on disk.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(running.stop()?)
}

fn ask(config: &Config, id: &str, question: &Msg) -> Result<Msg, Box<dyn std::error::Error>> {
    let id = node(id)?;
    let address = config.nodes.get(&id).ok_or_else(|| format!("{id} is not configured"))?;
    let mut client = Client::connect(&config.system, id, *address, codec())?;
    Ok(client.call(question, Duration::from_secs(5))?)
}
