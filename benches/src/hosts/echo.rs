//! Two echo servers and their client, as one writes them for tokio. The module in which this file
//! is included says whose sockets and clock they use.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::net::{TcpListener, TcpStream, sleep, spawn};

/// The messages of an execution, each of which is sent back.
pub const MESSAGES: u32 = 100;

/// Sends back what comes, for ever.
pub async fn echo() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let mut bytes = [0; 64];
        spawn(async move {
            while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                if stream.write_all(&bytes[..length]).await.is_err() {
                    return;
                }
                let _ = stream.flush().await;
            }
        });
    }
}

async fn connected(server: &str) -> TcpStream {
    loop {
        match TcpStream::connect(server).await {
            Ok(stream) => return stream,
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Sends numbers to two servers in turn, each after the answer to the one before.
pub async fn pinger(servers: [&str; 2]) -> io::Result<()> {
    let mut streams = [connected(servers[0]).await, connected(servers[1]).await];
    for number in 0..MESSAGES {
        let stream = &mut streams[number as usize % 2];
        stream.write_all(&number.to_le_bytes()).await?;
        stream.flush().await?;
        let mut bytes = [0; size_of::<u32>()];
        stream.read_exact(&mut bytes).await?;
        assert_eq!(u32::from_le_bytes(bytes), number);
    }
    Ok(())
}
