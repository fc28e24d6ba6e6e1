//! Two hosts that send back what they receive, and a third one that exchanges messages with them in
//! turn: `everhold-hosts-bench SIMULATOR EXECUTIONS MESSAGES` prints the CPU-seconds of the
//! executions, and Everhold also the number of its steps. The program is the same for each
//! simulator, but for the sockets that it imports.

use std::time::Duration;

use everhold::hosts;
use rustix::time::{ClockId, clock_gettime};

/// The program, over the sockets of this module.
macro_rules! program {
    ($($sockets:ident)::+) => {
        use std::io::Result;
        use std::time::Duration;

        use $($sockets)::+::{TcpListener, TcpStream};
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        pub async fn echo() -> Result<()> {
            let listener = TcpListener::bind("0.0.0.0:80").await?;
            loop {
                let (mut stream, _) = listener.accept().await?;
                tokio::spawn(async move {
                    let mut bytes = [0; 64];
                    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                        if stream.write_all(&bytes[..length]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        }

        async fn connect(address: &str) -> TcpStream {
            loop {
                match TcpStream::connect(address).await {
                    Ok(stream) => return stream,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        }

        pub async fn user(messages: u32) -> Result<()> {
            let mut streams = [connect("a:80").await, connect("b:80").await];
            for number in 0..messages {
                let stream = &mut streams[number as usize % 2];
                stream.write_all(&number.to_le_bytes()).await?;
                let mut back = [0; 4];
                stream.read_exact(&mut back).await?;
                assert_eq!(u32::from_le_bytes(back), number);
            }
            Ok(())
        }
    };
}

mod plain {
    program!(tokio::net);
}

mod simulated {
    program!(turmoil::net);
}

fn runtime(workers: usize) -> tokio::runtime::Runtime {
    let mut builder = match workers {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(workers.max(1)).enable_all().build().expect("a runtime starts")
}

/// Returns the number of steps.
fn on_everhold(workers: usize, executions: u64, messages: u32) -> u64 {
    let outcome = hosts(move |net| {
        for name in ["a", "b"] {
            net.host(name, move || runtime(workers).block_on(plain::echo()));
        }
        net.client("user", move || runtime(workers).block_on(plain::user(messages)));
    })
    .explorer(|explorer| explorer.executions(executions).regressions(false))
    .run();
    assert_eq!(outcome.failed, None, "{}", outcome.report);
    outcome.steps
}

fn on_turmoil(tick: u64, latency_max: Option<u64>, executions: u64, messages: u32) {
    for seed in 0..executions {
        let mut builder = turmoil::Builder::new();
        builder.rng_seed(seed).tick_duration(Duration::from_millis(tick));
        builder.simulation_duration(Duration::from_secs(600));
        if let Some(latency_max) = latency_max {
            builder.min_message_latency(Duration::ZERO);
            builder.max_message_latency(Duration::from_millis(latency_max));
        }
        let mut sim = builder.build();
        for name in ["a", "b"] {
            sim.host(name, || async { Ok(simulated::echo().await?) });
        }
        sim.client("user", async move { Ok(simulated::user(messages).await?) });
        sim.run().expect("the program succeeds");
    }
}

/// The processor time of this process, of which a search is a child.
fn cpu_seconds() -> f64 {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let own = own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9;
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this is Linux");
    // Fields 16 and 17 of proc_pid_stat(5), in hundredths of a second; field 2 ends with ")".
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(13).take(2);
    own + fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).and_then(|text| text.parse().ok()).expect("a number");
    let (executions, messages) = (number(1), number(2) as u32);
    let before = cpu_seconds();
    let mut steps = 0;
    match args[0].as_str() {
        "everhold" => steps = on_everhold(0, executions, messages),
        "everhold-2" => steps = on_everhold(2, executions, messages),
        "turmoil" => on_turmoil(1, None, executions, messages),
        "turmoil-tick-10" => on_turmoil(10, None, executions, messages),
        "turmoil-latency-1" => on_turmoil(1, Some(1), executions, messages),
        other => panic!("no simulator {other}"),
    }
    println!("{steps} {}", cpu_seconds() - before);
}
