use proptest::prelude::*;

use super::*;

fn whole(bytes: &[u8]) -> Vec<Event> {
    pieces(&[bytes])
}

fn pieces(parts: &[&[u8]]) -> Vec<Event> {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    for part in parts {
        decoder.feed(part, &mut out).unwrap();
    }
    decoder.finish(&mut out);
    out
}

fn event(name: &str, data: &str) -> Event {
    Event {
        name: name.into(),
        data: data.as_bytes().to_vec(),
    }
}

const NOISE: &[u8] = "\u{feff}retry: 3000\r\n: hello\r\n\r\nid: 1\r\ndata:{\"a\":\"Gr\u{fc}\u{df}e \u{1f642}\"}\r\n\r\n\
: keep-alive\n\ndata: : keepalive\n\ndata:\n\n\r\nevent: message\r\ndata: one\r\ndata: two\r\n\r\n\
event: keepalive\r\n\r\ndata: x\r\rdata\n\nevent: error\nid: 1\n\ndata: [DONE]\r\n\r\ndata: late"
    .as_bytes();

fn expected() -> Vec<Event> {
    vec![
        event("", "{\"a\":\"Gr\u{fc}\u{df}e \u{1f642}\"}"),
        event("", ": keepalive"),
        event("message", "one\ntwo"),
        event("", "x"),
        event("error", ""),
        event("", "[DONE]"),
        event("", "late"),
    ]
}

#[test]
fn noise_is_read_as_the_standard_says() {
    assert_eq!(whole(NOISE), expected());
}

#[test]
fn every_split_gives_the_same() {
    for cut in 0..=NOISE.len() {
        assert_eq!(
            pieces(&[&NOISE[..cut], &NOISE[cut..]]),
            expected(),
            "cut at {cut}"
        );
    }
    let single: Vec<&[u8]> = NOISE.chunks(1).collect();
    assert_eq!(pieces(&single), expected());
    for first in (0..NOISE.len()).step_by(3) {
        for second in (first..NOISE.len()).step_by(7) {
            let parts = [&NOISE[..first], &NOISE[first..second], &NOISE[second..]];
            assert_eq!(pieces(&parts), expected(), "cuts at {first} and {second}");
        }
    }
}

#[test]
fn a_line_without_end_is_bounded() {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    let block = vec![b'a'; 1 << 20];
    let mut refused = false;
    for _ in 0..20 {
        if decoder.feed(&block, &mut out).is_err() {
            refused = true;
            break;
        }
    }
    assert!(refused);
}

#[test]
fn many_data_lines_are_bounded_too() {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    let mut line = b"data: ".to_vec();
    line.extend(std::iter::repeat_n(b'a', 1 << 20));
    line.push(b'\n');
    let refused = (0..20).any(|_| decoder.feed(&line, &mut out).is_err());
    assert!(refused);
    // The twin: the same bytes as events of their own are fine.
    line.push(b'\n');
    let mut decoder = Decoder::default();
    assert!((0..20).all(|_| decoder.feed(&line, &mut out).is_ok()));
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_never_depend_on_cuts(
        bytes in proptest::collection::vec(prop_oneof![
            Just(b'\r'), Just(b'\n'), Just(b':'), Just(b' '), Just(b'd'), Just(b'a'), Just(b't'), any::<u8>()
        ], 0..300),
        cuts in proptest::collection::vec(0usize..300, 0..6),
    ) {
        let mut at: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
        at.push(0);
        at.push(bytes.len());
        at.sort_unstable();
        let parts: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(pieces(&parts), whole(&bytes));
    }
}
