//! Text of models and tools on a terminal: control characters out, length
//! bounded. An escape sequence in a file name could otherwise rewrite what a
//! person has just read, or answer for them.

/// Whether a character changes how others are shown rather than being shown.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` fit for a terminal: newlines and tabs stay, everything else that is
/// not shown goes.
pub fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !is_invisible(*c))
        .collect()
}

/// `text` on one line of at most `max` characters.
pub fn one_line(text: &str, max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
    {
        if count > 0 && count < max {
            line.push(' ');
            count += 1;
        }
        for c in word.chars().filter(|c| !is_invisible(*c)) {
            if count >= max {
                line.push('…');
                return line;
            }
            line.push(c);
            count += 1;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_lose_their_teeth_and_text_stays() {
        assert_eq!(plain("a\u{1b}[2Jb\r\n\tc\u{7}"), "a[2Jb\n\tc");
        assert_eq!(plain("x\u{202e}y\u{2066}z\u{200b}\u{9b}31m"), "xyz31m");
        assert_eq!(plain("Grüße 世界 🙂"), "Grüße 世界 🙂");
    }

    #[test]
    fn one_line_is_one_line_and_bounded() {
        assert_eq!(one_line("  a\n\n b\u{1b}[0m  c ", 80), "a b [0m c");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("ab cd", 3), "ab …");
        assert_eq!(one_line("", 3), "");
    }
}
