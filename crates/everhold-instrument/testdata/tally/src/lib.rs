//! A replicated counter with a leader, over TCP.
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role { Leader, Follower }

pub struct Replica {
    id: u32,
    role: Role,
    total: u64,
    applied: u64,
    peers: Vec<String>,
    last: BTreeMap<String, u64>,
    unrelated: usize,
}

impl Replica {
    pub fn new(id: u32, role: Role, peers: Vec<String>) -> Replica {
        Replica { id, role, total: 0, applied: 0, peers, last: BTreeMap::new(), unrelated: 3 }
    }

    fn handle(&mut self, line: &str) -> io::Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["add", client, number] => {
                let number: u64 = number.parse().map_err(io::Error::other)?;
                self.add(client, number)?;
                Ok(format!("total {}", self.total))
            }
            ["apply", total, applied] => {
                self.total = total.parse().map_err(io::Error::other)?;
                self.applied = applied.parse().map_err(io::Error::other)?;
                Ok("ok".to_owned())
            }
            _ => Ok("what".to_owned()),
        }
    }

    fn add(&mut self, client: &str, number: u64) -> io::Result<()> {
        self.total += number;
        self.applied += 1;
        self.last.insert(client.to_owned(), number);
        for peer in &self.peers {
            ask(peer, &format!("apply {} {}", self.total, self.applied))?;
        }
        Ok(())
    }

    pub fn unrelated(&self) -> usize { self.unrelated }
}

pub fn serve(listener: TcpListener, replica: Replica) {
    let replica = Arc::new(Mutex::new(replica));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let _ = answer(stream, &replica);
        }
    });
}

fn answer(mut stream: TcpStream, replica: &Mutex<Replica>) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    let text = replica.lock().unwrap().handle(&line)?;
    writeln!(stream, "{text}")?;
    Ok(())
}

pub fn ask(to: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(to)?;
    writeln!(stream, "{request}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}
