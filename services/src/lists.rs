//! A small server of lists on tokio: `push LIST VALUE` adds a value, and `pop LIST` takes the
//! oldest one and waits for it if there is none.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::sleep;

/// When the reader of an empty list begins to listen for new values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// Before it looks at the list.
    First,
    /// After it looked: a value that came in between wakes nobody.
    Late,
}

#[derive(Debug, Default)]
struct Lists {
    values: Mutex<BTreeMap<String, VecDeque<String>>>,
    pushed: Notify,
}

impl Lists {
    fn push(&self, list: &str, value: &str) {
        let mut values = self.values.lock().unwrap();
        values.entry(list.to_owned()).or_default().push_back(value.to_owned());
        drop(values);
        self.pushed.notify_waiters();
    }

    fn first(&self, list: &str) -> Option<String> {
        self.values.lock().unwrap().get_mut(list)?.pop_front()
    }

    async fn pop(&self, list: &str, listening: Listening) -> String {
        loop {
            let early = (listening == Listening::First).then(|| self.pushed.notified());
            if let Some(value) = self.first(list) {
                return value;
            }
            println!("a reader waits for {list}");
            match early {
                Some(pushed) => pushed.await,
                None => self.pushed.notified().await,
            }
        }
    }
}

/// The server's program, on a runtime of two threads.
#[tokio::main(worker_threads = 2)]
pub async fn main_with(listening: Listening) -> io::Result<()> {
    let lists = Arc::new(Lists::default());
    let listener = TcpListener::bind("0.0.0.0:6379").await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, Arc::clone(&lists), listening));
    }
}

async fn serve(stream: TcpStream, lists: Arc<Lists>, listening: Listening) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut requests = BufReader::new(read).lines();
    while let Some(request) = requests.next_line().await? {
        let answer = match request.split(' ').collect::<Vec<_>>()[..] {
            ["push", list, value] => {
                lists.push(list, value);
                "ok".to_owned()
            }
            ["pop", list] => lists.pop(list, listening).await,
            _ => "what?".to_owned(),
        };
        write.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

/// Sends one request to the server, and returns its answer.
pub async fn ask(server: &str, request: &str) -> io::Result<String> {
    let mut stream = loop {
        match TcpStream::connect(server).await {
            Ok(stream) => break stream,
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    stream.write_all(format!("{request}\n").as_bytes()).await?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await?;
    Ok(answer.trim_end().to_owned())
}
