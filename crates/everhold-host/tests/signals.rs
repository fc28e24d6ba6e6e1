//! Signals: handlers, graceful shutdown, and operators that stop and start hosts.

#![expect(clippy::disallowed_methods, reason = "hosts are programs as they are")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, thread};

use everhold_host::{Net, Outcome, Signal, hosts, signal, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::SignalKind;

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

/// A server that counts requests, answers those that it has begun when it is told to stop, and
/// writes the count to its disk last.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn server(graceful: bool) -> std::io::Result<()> {
    let before: u32 = fs::read_to_string("/count").ok().and_then(|t| t.parse().ok()).unwrap_or(0);
    let count = std::sync::Arc::new(AtomicU32::new(before));
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    let mut term = tokio::signal::unix::signal(SignalKind::terminate())?;
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = tokio::signal::ctrl_c() => break,
            accepted = listener.accept() => {
                let (mut stream, _) = accepted?;
                let count = std::sync::Arc::clone(&count);
                tasks.spawn(async move {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).await.is_ok() {
                        let now = count.fetch_add(1, Ordering::SeqCst) + 1;
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        let _ = stream.write_all(&now.to_be_bytes()).await;
                    }
                });
            }
        }
    }
    if graceful {
        while tasks.join_next().await.is_some() {}
        fs::write("/count", count.load(Ordering::SeqCst).to_string())?;
    }
    Ok(())
}

async fn add() -> std::io::Result<u32> {
    let mut stream = TcpStream::connect("server:80").await?;
    stream.write_all(b"+").await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    Ok(u32::from_be_bytes(answer))
}

/// The server is stopped and started again while a user adds; what it acknowledged is kept.
fn rolling_restart(net: &mut Net<'_>, graceful: bool) {
    net.host("server", move || server(graceful));
    net.client("user", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut last = 0;
            for _ in 0..6 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                loop {
                    match add().await {
                        Ok(now) => {
                            assert!(now > last, "an acknowledged addition was lost");
                            last = now;
                            break;
                        }
                        Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                    }
                }
            }
        });
    });
    net.client("operator", || {
        thread::sleep(Duration::from_millis(300));
        signal("server", Signal::Terminate);
        start("server");
    });
}

#[test]
fn a_graceful_server_survives_a_rolling_restart() {
    let outcome = check(100, |net| rolling_restart(net, true));
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_hasty_server_loses_what_it_acknowledged() {
    let outcome = check(100, |net| rolling_restart(net, false));
    let failed = outcome.failed.expect("the count is not written");
    assert!(outcome.report.contains("an acknowledged addition was lost"), "{failed}");
}

#[test]
fn ctrl_c_reaches_a_program_on_one_thread() {
    let outcome = check(50, |net| {
        net.client("program", || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(tokio::signal::ctrl_c()).unwrap();
        });
        net.client("operator", || {
            thread::sleep(Duration::from_secs(1));
            signal("program", Signal::Interrupt);
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_program_without_a_handler_ends_and_that_is_no_finding() {
    let outcome = check(50, |net| {
        net.host("server", || {
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        });
        net.client("operator", || {
            thread::sleep(Duration::from_secs(1));
            signal("server", Signal::Kill);
            thread::sleep(Duration::from_secs(1));
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn pictures_show_signals() {
    let outcome = check(1, |net| {
        net.host("server", || thread::sleep(Duration::from_secs(9)));
        net.client("operator", || {
            signal("server", Signal::Terminate);
            thread::sleep(Duration::from_secs(1));
            panic!("that is all");
        });
    });
    assert!(outcome.report.contains("SIGTERM ends the process"), "{}", outcome.report);
}
