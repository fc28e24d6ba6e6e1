//! A shop on axum, and its customer on reqwest.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// The header that names an order, so that the shop knows a repeated one.
const KEY: &str = "idempotency-key";

#[derive(Debug, Default)]
struct Shop {
    orders: u64,
    keys: BTreeSet<String>,
}

type Shared = Arc<Mutex<Shop>>;

/// The shop's program.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> io::Result<()> {
    let routes = Router::new().route("/orders", get(orders)).route("/orders", post(order));
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    axum::serve(listener, routes.with_state(Shared::default())).await
}

async fn orders(State(shop): State<Shared>) -> String {
    shop.lock().unwrap().orders.to_string()
}

async fn order(State(shop): State<Shared>, headers: HeaderMap) -> String {
    let mut shop = shop.lock().unwrap();
    let key = headers.get(KEY).and_then(|key| key.to_str().ok());
    if key.is_none_or(|key| shop.keys.insert(key.to_owned())) {
        shop.orders += 1;
    }
    shop.orders.to_string()
}

/// A customer, who repeats a request until there is an answer.
#[derive(Clone, Debug)]
pub struct Customer {
    http: reqwest::Client,
    shop: String,
    /// Whether orders carry a key. Without one, a repeated order is a second one.
    with_keys: bool,
}

impl Customer {
    pub fn new(shop: &str, with_keys: bool) -> Customer {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2));
        let http = http.build().expect("a client without TLS can be made");
        Customer { http, shop: format!("http://{shop}/orders"), with_keys }
    }

    pub async fn order(&self, number: u64) -> u64 {
        let key = self.with_keys.then(|| number.to_string());
        self.insist(|| {
            let request = self.http.post(&self.shop);
            key.iter().fold(request, |request, key| request.header(KEY, key))
        })
        .await
    }

    pub async fn orders(&self) -> u64 {
        self.insist(|| self.http.get(&self.shop)).await
    }

    async fn insist(&self, request: impl Fn() -> reqwest::RequestBuilder) -> u64 {
        loop {
            if let Ok(answer) = request().send().await
                && let Ok(text) = answer.text().await
                && let Ok(number) = text.parse()
            {
                return number;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}
