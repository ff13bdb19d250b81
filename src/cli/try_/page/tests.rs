use super::*;

#[test]
fn lines_are_never_wider_than_asked_and_lose_no_word() {
    let text = format!("one two three {} four\n\nfive", "x".repeat(25));
    let lines = wrapped(&text, 10);
    assert!(lines.iter().all(|line| line.chars().count() <= 10));
    assert_eq!(
        lines.concat().replace(' ', ""),
        format!("onetwothree{}fourfive", "x".repeat(25))
    );
    assert!(lines.contains(&String::new()));
}

#[test]
fn escape_sequences_of_a_model_do_not_reach_the_terminal() {
    assert_eq!(wrapped("a\u{1b}[2Jb", 80), ["a[2Jb"]);
}
