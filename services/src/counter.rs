//! A counter as a web service on axum, and its client on reqwest.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::runtime::{Builder, Runtime};

/// How the counter adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adding {
    /// Under one lock.
    Careful,
    /// Reads, writes to a log, and then writes the sum.
    Hasty,
}

type Shared = (Adding, Arc<Mutex<u64>>);

/// A runtime of one thread (zero workers) or of several.
pub fn runtime(workers: usize) -> Runtime {
    match workers {
        0 => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_all().build(),
    }
    .expect("a runtime starts")
}

/// The service's `main`.
pub fn serve(adding: Adding, workers: usize) {
    runtime(workers).block_on(async {
        let state: Shared = (adding, Arc::default());
        let routes = Router::new().route("/total", get(total)).route("/add", post(add));
        let listener = tokio::net::TcpListener::bind("0.0.0.0:80").await.expect("the port is free");
        axum::serve(listener, routes.with_state(state)).await.expect("it serves");
    });
}

async fn total(State((_, total)): State<Shared>) -> Json<u64> {
    Json(*total.lock().unwrap())
}

async fn add(State((adding, total)): State<Shared>, Json(number): Json<u64>) -> Json<u64> {
    if adding == Adding::Careful {
        let mut total = total.lock().unwrap();
        *total += number;
        return Json(*total);
    }
    let read = *total.lock().unwrap();
    tokio::task::yield_now().await;
    *total.lock().unwrap() = read + number;
    Json(read + number)
}

/// Adds a number; asks again until there is an answer.
pub async fn add_at(host: &str, number: u64) -> u64 {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client can be made");
    loop {
        let request = client.post(format!("http://{host}/add")).json(&number).send();
        if let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(5), request).await
            && let Ok(total) = answer.json().await
        {
            return total;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Two users who add one each: the larger answer must be two.
pub fn two_users(workers: usize) {
    runtime(workers).block_on(async {
        let one = tokio::spawn(add_at("counter", 1));
        let two = tokio::spawn(add_at("counter", 1));
        let (one, two) = (one.await.unwrap(), two.await.unwrap());
        assert_eq!(one.max(two), 2, "an addition was lost");
    });
}
