//! Alerts that wait for their receiver while the process of the watch comes and goes.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use everhold_watch::{CheckOptions, export};

use crate::engine::{LONG, folder};

/// The alerts that arrive; each is taken.
fn receive(listener: TcpListener) -> Receiver<String> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            while !text.contains("\"version\"") {
                let count = stream.read(&mut buffer).unwrap_or(0);
                if count == 0 {
                    break;
                }
                text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
            let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n");
            let _ = tell.send(if text.contains("resolved") { "resolved" } else { "firing" }.into());
        }
    });
    told
}

#[test]
fn alerts_that_wait_outlive_their_process_and_are_delivered_once() {
    let folder = folder("alerts");
    std::fs::create_dir_all(&folder).unwrap();
    let notices = crate::feed::notices(CheckOptions::default(), &crate::checker::double_grant());
    // Nobody listens there before the second process.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/alerts");
    let start = || export::Webhook::start_over(None, &url, Some(&folder), |_| ()).unwrap();
    let first = start();
    notices.iter().for_each(|notice| first.tell(notice));
    assert_eq!(first.wait(Duration::ZERO), 2);
    // What a kill leaves behind: the thread of the first tries on, and must not deliver.
    let kept = std::fs::read(folder.join("alerts.jsonl")).unwrap();
    let elsewhere = crate::engine::folder("alerts-killed");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("alerts.jsonl"), [&kept[..], b"{\"number\":9,\"si"].concat())
        .unwrap();
    let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/alerts", receiver.local_addr().unwrap());
    let told = receive(receiver);
    let second = export::Webhook::start_over(None, &url, Some(&elsewhere), |_| ()).unwrap();
    assert_eq!(second.wait(LONG), 0);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["firing", "resolved"]);
    drop(second);
    let third = export::Webhook::start_over(None, &url, Some(&elsewhere), |_| ()).unwrap();
    assert_eq!((third.wait(LONG), told.try_iter().count()), (0, 0));
}
