use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// A server that answers every request with these bytes, and where it is.
async fn server(answer: &'static str) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let n = socket.read(&mut request).await.unwrap_or(0);
            let seen = String::from_utf8_lossy(&request[..n]).to_lowercase();
            if answer == "hang" {
                std::future::pending::<()>().await;
            }
            let body = if seen.contains("authorization") {
                "{\"data\":[{\"id\":\"keyed\"}]}"
            } else {
                answer
            };
            let status = if body == "busy" { "500 X" } else { "200 OK" };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = socket.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    format!("http://127.0.0.1:{port}/v1").parse().unwrap()
}

fn candidate(kind: &'static str, base_url: &Url) -> Candidate {
    Candidate {
        kind,
        base_url: base_url.clone(),
    }
}

const MODELS: &str = "{\"object\":\"list\",\"data\":[{\"id\":\"one\"},{\"id\":\"two\"}]}";

#[tokio::test]
async fn the_first_in_order_that_has_a_model() {
    let (busy, empty) = (server("busy").await, server("{\"data\":[]}").await);
    let (page, good, other) = (
        server("<html>").await,
        server(MODELS).await,
        server(MODELS).await,
    );
    // A port at which nobody listens.
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        format!("http://127.0.0.1:{port}/v1").parse().unwrap()
    };
    let candidates = [
        candidate("busy", &busy),
        candidate("empty", &empty),
        candidate("page", &page),
        candidate("closed", &closed),
        candidate("good", &good),
        candidate("other", &other),
    ];
    let found = discover(&candidates, Duration::from_secs(5)).await.unwrap();
    assert_eq!((found.kind, found.base_url), ("good", good));
    assert_eq!(found.models, ["one", "two"]);
    assert_eq!(
        discover(&candidates[..4], Duration::from_secs(5)).await,
        None
    );
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let (hang, good) = (server("hang").await, server(MODELS).await);
    let candidates = [candidate("hang", &hang), candidate("good", &good)];
    let found = discover(&candidates, Duration::from_millis(300))
        .await
        .unwrap();
    assert_eq!(found.kind, "good");
}

#[tokio::test]
async fn models_are_listed_with_and_without_a_key() {
    let url = server("{\"models\":[{\"name\":\"m:1\",\"model\":\"m:1\"}]}").await;
    assert_eq!(list_models(&url, None).await.unwrap(), ["m:1"]);
    let key = SecretString::from("sk-test-0123456789");
    assert_eq!(list_models(&url, Some(&key)).await.unwrap(), ["keyed"]);
    let busy = server("busy").await;
    let error = list_models(&busy, None).await.unwrap_err();
    assert_eq!(
        (error.class, error.status),
        (ErrorClass::UpstreamError, Some(500))
    );
    let error = list_models(&"ftp://h/".parse().unwrap(), None)
        .await
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::Local);
}

#[test]
fn the_usual_places_are_on_this_machine() {
    let places = usual_candidates();
    assert_eq!(places.len(), 5);
    assert!(
        places
            .iter()
            .all(|place| endpoint::is_loopback(&place.base_url))
    );
    assert_eq!(places[0].base_url.as_str(), "http://127.0.0.1:1234/v1");
}
