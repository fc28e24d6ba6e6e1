//! A box office as a program that knows nothing of Everhold: threads, sockets, locks and a file of
//! the standard library. `everhold demo hosts` runs it as it is, on a simulated host.
//!
//! Its protocol has two requests, a line each: `book SEAT NAME` is answered by `ok` or `taken`, and
//! `who SEAT` by the name of who has the seat, or by an empty line.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The mistakes that the office can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// None.
    None,
    /// A booking is acknowledged when it is written to the journal, and not only when it is on the
    /// disk.
    DoesNotSync,
}

/// The port of the office.
const PORT: u16 = 4000;
/// The time after which a customer asks again.
const AGAIN: Duration = Duration::from_millis(50);

/// The seats, and the journal in which they survive.
struct Office {
    seats: BTreeMap<String, String>,
    journal: File,
    bug: Bug,
}

impl Office {
    fn open(journal: &Path, bug: Bug) -> io::Result<Office> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(journal)?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // A crash may have left part of the last line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        file.sync_all()?;
        File::open(journal.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        let seats = text[..whole].lines().filter_map(|line| line.split_once(' '));
        let seats = seats.map(|(seat, name)| (seat.to_owned(), name.to_owned())).collect();
        Ok(Office { seats, journal: file, bug })
    }

    fn book(&mut self, seat: &str, name: &str) -> io::Result<&'static str> {
        match self.seats.get(seat) {
            Some(owner) if owner == name => return Ok("ok"),
            Some(_) => return Ok("taken"),
            None => {}
        }
        self.journal.write_all(format!("{seat} {name}\n").as_bytes())?;
        if self.bug != Bug::DoesNotSync {
            self.journal.sync_data()?;
        }
        self.seats.insert(seat.to_owned(), name.to_owned());
        Ok("ok")
    }
}

/// The program of the office: a thread for each customer.
///
/// # Errors
///
/// If the journal cannot be opened, or the port is taken.
pub fn main_with(bug: Bug) -> io::Result<()> {
    let office = Arc::new(Mutex::new(Office::open(Path::new("/journal"), bug)?));
    for stream in TcpListener::bind(("0.0.0.0", PORT))?.incoming() {
        let (stream, office) = (stream?, Arc::clone(&office));
        thread::spawn(move || serve(&stream, &office));
    }
    Ok(())
}

fn serve(stream: &TcpStream, office: &Mutex<Office>) -> io::Result<()> {
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let mut office = office.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match line.split(' ').collect::<Vec<_>>()[..] {
            ["book", seat, name] => office.book(seat, name)?.to_owned(),
            ["who", seat] => office.seats.get(seat).cloned().unwrap_or_default(),
            _ => "what?".to_owned(),
        };
        drop(office);
        let mut stream = stream;
        stream.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

/// Asks the office until there is an answer.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the program knows nothing of virtual time")]
pub fn ask(office: &str, request: &str) -> String {
    loop {
        match exchange(office, request) {
            Ok(answer) => return answer,
            Err(_) => thread::sleep(AGAIN),
        }
    }
}

fn exchange(office: &str, request: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((office, PORT))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    let whole = answer.strip_suffix('\n').ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(whole.to_owned())
}

/// A customer, who books a seat and then looks whether he has it.
///
/// # Panics
///
/// If a seat that was acknowledged is not his.
pub fn customer(office: &str, name: &str, seat: &str) {
    if ask(office, &format!("book {seat} {name}")) == "ok" {
        let owner = ask(office, &format!("who {seat}"));
        assert_eq!(owner, name, "seat {seat} was acknowledged");
    }
}
