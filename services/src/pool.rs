//! Transfers between the accounts of a database, over pools of connections that others wrote:
//! r2d2 with threads, deadpool with tokio. The database is a script that answers every line.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

/// How a transfer uses connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borrowing {
    /// One for the whole transfer.
    One,
    /// A second one for the entry in the journal, while it holds the first.
    Nested,
}

/// The database's program.
pub fn database() -> io::Result<()> {
    for stream in TcpListener::bind("0.0.0.0:5432")?.incoming() {
        let stream = stream?;
        thread::spawn(move || -> io::Result<()> {
            let mut answers = stream.try_clone()?;
            for query in BufReader::new(stream).lines() {
                answers.write_all(format!("done {}\n", query?).as_bytes())?;
            }
            Ok(())
        });
    }
    Ok(())
}

/// Waits until the database takes connections.
fn up(database: &str) {
    while TcpStream::connect(database).is_err() {
        thread::sleep(Duration::from_millis(20));
    }
}

pub mod threads {
    //! On r2d2.

    use super::*;

    #[derive(Debug)]
    struct Connections(String);

    impl r2d2::ManageConnection for Connections {
        type Connection = BufReader<TcpStream>;
        type Error = io::Error;

        fn connect(&self) -> io::Result<BufReader<TcpStream>> {
            TcpStream::connect(&self.0).map(BufReader::new)
        }

        fn is_valid(&self, _: &mut BufReader<TcpStream>) -> io::Result<()> {
            Ok(())
        }

        fn has_broken(&self, _: &mut BufReader<TcpStream>) -> bool {
            false
        }
    }

    fn query(connection: &mut BufReader<TcpStream>, text: &str) -> io::Result<()> {
        connection.get_mut().write_all(format!("{text}\n").as_bytes())?;
        let mut answer = String::new();
        connection.read_line(&mut answer)?;
        assert_eq!(answer, format!("done {text}\n"));
        Ok(())
    }

    fn transfer(pool: &r2d2::Pool<Connections>, borrowing: Borrowing) -> io::Result<()> {
        let mut connection = pool.get().map_err(io::Error::other)?;
        query(&mut connection, "update accounts")?;
        match borrowing {
            Borrowing::One => query(&mut connection, "insert into journal"),
            Borrowing::Nested => {
                query(&mut *pool.get().map_err(io::Error::other)?, "insert into journal")
            }
        }
    }

    /// Several transfers at once, over a pool with a connection for each.
    pub fn main_with(database: &str, transfers: u32, borrowing: Borrowing) -> io::Result<()> {
        up(database);
        let pool = r2d2::Pool::builder().max_size(transfers);
        let pool = pool.build(Connections(database.to_owned())).map_err(io::Error::other)?;
        let started = (0..transfers).map(|_| {
            let pool = pool.clone();
            thread::spawn(move || transfer(&pool, borrowing))
        });
        let started: Vec<_> = started.collect();
        started.into_iter().try_for_each(|transfer| transfer.join().unwrap())
    }
}

pub mod tasks {
    //! On deadpool.

    use deadpool::managed::{Manager, Metrics, Pool, RecycleResult};
    use tokio::io::BufStream;
    use tokio::net::TcpStream;

    use super::*;

    #[derive(Debug)]
    struct Connections(String);

    impl Manager for Connections {
        type Type = BufStream<TcpStream>;
        type Error = io::Error;

        async fn create(&self) -> io::Result<BufStream<TcpStream>> {
            TcpStream::connect(&self.0).await.map(BufStream::new)
        }

        async fn recycle(
            &self,
            _: &mut BufStream<TcpStream>,
            _: &Metrics,
        ) -> RecycleResult<io::Error> {
            Ok(())
        }
    }

    async fn query(connection: &mut BufStream<TcpStream>, text: &str) -> io::Result<()> {
        connection.write_all(format!("{text}\n").as_bytes()).await?;
        connection.flush().await?;
        let mut answer = String::new();
        connection.read_line(&mut answer).await?;
        assert_eq!(answer, format!("done {text}\n"));
        Ok(())
    }

    async fn transfer(pool: Pool<Connections>, borrowing: Borrowing) -> io::Result<()> {
        let mut connection = pool.get().await.map_err(io::Error::other)?;
        query(&mut connection, "update accounts").await?;
        match borrowing {
            Borrowing::One => query(&mut connection, "insert into journal").await,
            Borrowing::Nested => {
                let mut second = pool.get().await.map_err(io::Error::other)?;
                query(&mut second, "insert into journal").await
            }
        }
    }

    /// Several transfers at once, over a pool with a connection for each.
    #[tokio::main(flavor = "current_thread")]
    pub async fn main_with(
        database: &str,
        transfers: usize,
        borrowing: Borrowing,
    ) -> io::Result<()> {
        up(database);
        let pool = Pool::<Connections>::builder(Connections(database.to_owned()));
        let pool = pool.max_size(transfers).build().map_err(io::Error::other)?;
        let started = (0..transfers).map(|_| tokio::spawn(transfer(pool.clone(), borrowing)));
        let started: Vec<_> = started.collect();
        for transfer in started {
            transfer.await??;
        }
        Ok(())
    }
}
