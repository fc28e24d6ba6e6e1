//! A client of the store, which asks one node after the other until one of them is the leader.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use super::{PORT, Write, Written};

/// The time for which a client waits for an answer, and that before it asks again.
const ANSWER: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);

/// A client of the store.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    nodes: Vec<String>,
}

impl Client {
    /// A client of these nodes, by their names.
    pub fn new<T: Into<String>>(nodes: impl IntoIterator<Item = T>) -> Client {
        let http = reqwest::Client::builder().no_proxy().timeout(ANSWER).build();
        let nodes = nodes.into_iter().map(Into::into).collect();
        Client { http: http.expect("a client can be made"), nodes }
    }

    /// Tells every node which nodes there are.
    pub async fn start(&self) {
        let nodes: BTreeMap<u64, &String> = (0..).zip(&self.nodes).collect();
        let told = |node| {
            let (client, body) = (self.clone(), serde_json::to_value(&nodes).expect("it is JSON"));
            tokio::spawn(async move {
                while client.post::<()>(node, "start", &body).await.is_err() {
                    sleep(PAUSE).await;
                }
            })
        };
        let told: Vec<_> = (0..self.nodes.len()).map(told).collect();
        for told in told {
            told.await.expect("it does not panic");
        }
    }

    /// Writes a value; repeats it until it is acknowledged.
    pub async fn write(&self, key: &str, value: &str) -> Written {
        let write = Write { key: key.to_owned(), value: value.to_owned() };
        for node in (0..self.nodes.len()).cycle() {
            if let Ok(written) = self.post(node, "write", &write).await {
                return written;
            }
            sleep(PAUSE).await;
        }
        unreachable!("it asks for ever")
    }

    /// Reads a value from the leader.
    pub async fn read(&self, key: &str) -> Option<String> {
        for node in (0..self.nodes.len()).cycle() {
            if let Ok(value) = self.get(node, key).await {
                return value;
            }
            sleep(PAUSE).await;
        }
        unreachable!("it asks for ever")
    }

    fn at(&self, node: usize, path: &str) -> String {
        format!("http://{}:{PORT}/{path}", self.nodes[node])
    }

    async fn get(&self, node: usize, key: &str) -> reqwest::Result<Option<String>> {
        let at = self.at(node, &format!("read/{key}"));
        self.http.get(at).send().await?.error_for_status()?.json().await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        node: usize,
        path: &str,
        body: &impl Serialize,
    ) -> reqwest::Result<T> {
        let sent = self.http.post(self.at(node, path)).json(body).send().await?;
        sent.error_for_status()?.json().await
    }
}
