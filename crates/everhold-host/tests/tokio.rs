//! Programs on tokio, unmodified: both of its runtimes, its sockets and its timers.

use std::time::Duration;

use everhold_host::{Net, Outcome, hosts};
use everhold_sim::Faults;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

fn check(executions: u64, setup: impl Fn(&mut Net<'_>) + Send + Sync + 'static) -> Outcome {
    hosts(setup).explorer(|e| e.executions(executions).regressions(false)).run()
}

fn runtime(workers: usize) -> Runtime {
    match workers {
        0 => Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap(),
    }
}

async fn serve() {
    let listener = TcpListener::bind("0.0.0.0:7").await.unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..length]).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn ask(number: u8) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect("echo:7").await?;
    stream.write_all(&[number]).await?;
    let mut back = [0];
    stream.read_exact(&mut back).await?;
    Ok(back[0])
}

/// Asks until there is an answer.
async fn insist(number: u8) -> u8 {
    loop {
        match timeout(Duration::from_secs(5), ask(number)).await {
            Ok(Ok(back)) => return back,
            _ => sleep(Duration::from_millis(50)).await,
        }
    }
}

fn echo_and_user(net: &mut Net<'_>, workers: usize) {
    net.host("echo", move || runtime(workers).block_on(serve()));
    net.client("user", move || {
        runtime(workers).block_on(async {
            let asked: Vec<_> = (0..3).map(|number| tokio::spawn(insist(number))).collect();
            for (number, asked) in asked.into_iter().enumerate() {
                assert_eq!(usize::from(asked.await.unwrap()), number);
            }
        });
    });
}

#[test]
fn the_runtime_of_one_thread_works() {
    let outcome = check(50, |net| echo_and_user(net, 0));
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn the_runtime_of_two_threads_works() {
    let outcome = check(30, |net| echo_and_user(net, 2));
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn no_timeout_of_seconds_fires_without_a_fault() {
    let outcome = check(200, |net| {
        net.host("echo", || runtime(0).block_on(serve()));
        net.client("user", || {
            runtime(0).block_on(async {
                sleep(Duration::from_secs(1)).await;
                for number in 0..3 {
                    let asked = timeout(Duration::from_secs(5), ask(number)).await;
                    assert_eq!(asked.expect("there is time").unwrap(), number);
                }
            });
        });
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn crashes_and_partitions_are_survived() {
    let outcome = check(50, |net| {
        echo_and_user(net, 0);
        net.faults(Faults::none().crash(1).partition(1));
    });
    assert_eq!(outcome.failed, None, "{}", outcome.report);
}

#[test]
fn a_check_before_a_wait_misses_a_wake_up_on_two_threads_only() {
    let program = |workers: usize| {
        move |net: &mut Net<'_>| {
            net.client("waiter", move || {
                runtime(workers).block_on(async {
                    let ready = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
                    let bell = std::sync::Arc::new(tokio::sync::Notify::new());
                    let (set, ring) = (ready.clone(), bell.clone());
                    tokio::spawn(async move {
                        set.store(true, std::sync::atomic::Ordering::SeqCst);
                        ring.notify_waiters();
                    });
                    let wait = tokio::spawn(async move {
                        if !ready.load(std::sync::atomic::Ordering::SeqCst) {
                            std::thread::yield_now();
                            bell.notified().await;
                        }
                    });
                    wait.await.unwrap();
                });
            });
        }
    };
    let single = check(50, program(0));
    assert_eq!(single.failed, None, "{}", single.report);
    let double = check(5_000, program(2));
    let failed = double.failed.expect("the wake-up is missed");
    assert!(failed.contains("deadlock"), "{failed}");
}
