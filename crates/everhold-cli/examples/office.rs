//! An example of a watched service that is not built from Everhold's nodes: booking offices that
//! sell seats. Each office is a process with threads and sockets of its own.
//!
//! Seat n belongs to office n modulo 2, and the other office passes its customers on. With the bug,
//! `--careless`, an office sells every seat itself.
//!
//! ```text
//! office NUMBER CHECKER [--careless]
//! ```
//!
//! An office prints its address, reads the address of the other one from standard input, and ends
//! at the end of that input. Customers and offices send lines (`sell SEAT NAME`, `cancel SEAT`) and
//! receive one line in reply. Between offices a line begins with the probe's envelope, which an
//! HTTP service would carry in a header.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use everhold_live::probe::HEADER;
use everhold_live::{Envelope, NodeId, Probe, Var};

struct Office {
    number: u32,
    careless: bool,
    other: SocketAddr,
    sold: Arc<Sold>,
    probe: Probe,
    /// The relation that the rules refer to: seat to customer.
    relation: Var,
    request: Var,
}

/// Seat to customer.
type Sold = Mutex<BTreeMap<u32, String>>;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [number, checker, rest @ ..] = &words[..] else {
        return Err("office NUMBER CHECKER [--careless]".into());
    };
    let number = number.parse()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let mut lines = io::stdin().lines();
    let other = lines.next().ok_or("where is the other office?")??.parse()?;
    let sold = Arc::new(Sold::default());
    let told_again = Arc::clone(&sold);
    let probe = Probe::to_checkers([checker.parse()?])
        .system("booking")
        .node(NodeId(number), &format!("office-{number}"), "office")
        // A new checker receives the seats that were sold before it connected.
        .refresh(move |probe| {
            let relation = probe.var("sold");
            for (seat, customer) in &*told_again.lock().expect("no sale panics") {
                probe.add(relation, *seat, customer);
            }
        })
        .start();
    let office = Arc::new(Office {
        number,
        careless: rest.iter().any(|word| word == "--careless"),
        other,
        sold,
        relation: probe.var("sold"),
        request: probe.var("request"),
        probe,
    });
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let office = Arc::clone(&office);
            thread::spawn(move || office.serve(stream));
        }
    });
    lines.for_each(drop);
    Ok(())
}

impl Office {
    fn serve(&self, stream: TcpStream) -> Result<(), Failure> {
        let mut replies = stream.try_clone()?;
        for line in BufReader::new(stream).lines() {
            let line = line?;
            let request = match line.strip_prefix(HEADER).and_then(|rest| rest.split_once(' ')) {
                Some((envelope, request)) => {
                    self.probe.receive(envelope.trim_start_matches(':').parse()?)?;
                    request
                }
                None => &line,
            };
            writeln!(replies, "{}", self.answer(request)?)?;
        }
        Ok(())
    }

    fn answer(&self, request: &str) -> Result<String, Failure> {
        let words: Vec<&str> = request.split(' ').collect();
        let seat: u32 = words.get(1).ok_or("which seat?")?.parse()?;
        let is_ours = self.careless || seat % 2 == self.number;
        match (words[0], is_ours) {
            ("sell", true) => Ok(self.sell(seat, words.get(2).ok_or("to whom?")?)),
            ("sell", false) => self.ask_other(request),
            ("cancel", _) => Ok(self.cancel(seat)),
            (other, _) => Err(format!("{other} is nothing that an office does").into()),
        }
    }

    fn sell(&self, seat: u32, customer: &str) -> String {
        let mut sold = self.sold.lock().expect("no sale panics");
        if sold.contains_key(&seat) {
            return "taken".to_owned();
        }
        sold.insert(seat, customer.to_owned());
        self.probe.add(self.relation, seat, customer);
        "sold".to_owned()
    }

    fn cancel(&self, seat: u32) -> String {
        let mut sold = self.sold.lock().expect("no sale panics");
        match sold.remove(&seat) {
            Some(customer) => {
                self.probe.remove(self.relation, seat, &customer);
                "cancelled".to_owned()
            }
            None => "not sold here".to_owned(),
        }
    }

    fn ask_other(&self, request: &str) -> Result<String, Failure> {
        let mut stream = TcpStream::connect(self.other)?;
        let envelope: Envelope = self.probe.send(Some(NodeId(1 - self.number)), self.request);
        writeln!(stream, "{HEADER}:{envelope} {request}")?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        Ok(reply.trim_end().to_owned())
    }
}
