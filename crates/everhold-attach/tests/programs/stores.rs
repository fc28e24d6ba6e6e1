//! Two processes with two stores each. A store has a thread and a connection of its own; what it sends
//! or receives belongs to it alone. A third thread of each process serves no store.
//!
//! stores send|receive PORT

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

#[inline(never)]
pub fn stored(store: u64, value: u64) {
    std::hint::black_box((store, value));
}

fn send(store: u64, port: u16) {
    let mut to = TcpStream::connect(("127.0.0.1", port)).unwrap();
    for value in 0..10_u64 {
        if store < 3 {
            stored(store, value);
        }
        to.write_all(&value.to_le_bytes()).unwrap();
        to.read_exact(&mut [0]).unwrap();
    }
}

fn receive(store: u64, listener: &TcpListener) {
    let mut from = listener.accept().unwrap().0;
    let mut value = [0; 8];
    // The first read is before the store was shown at all.
    while from.read_exact(&mut value).is_ok() {
        if store < 13 {
            stored(store, u64::from_le_bytes(value));
        }
        from.write_all(&[1]).unwrap();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (sends, first) = (arguments[1] == "send", arguments[2].parse::<u16>().unwrap());
    let listeners: Vec<TcpListener> = match sends {
        true => Vec::new(),
        false => (1..4).map(|n| TcpListener::bind(("127.0.0.1", first + n)).unwrap()).collect(),
    };
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let mut listeners = listeners.into_iter();
    let threads: Vec<_> = (1..4_u64)
        .map(|store| {
            let listener = listeners.next();
            thread::spawn(move || match listener {
                None => send(store, first + store as u16),
                Some(listener) => receive(10 + store, &listener),
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("done");
    line.clear();
    std::io::stdin().read_line(&mut line).unwrap();
}
