//! Strings end where a reader that looks at one byte at a time says so, wherever blocks of 16 and 64 bytes begin.

use super::cursor::Cursor;
use super::scan;

/// A small generator: the tests need many bytes, not good ones.
struct Bytes(u64);

impl Bytes {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0).checked_rem(below).unwrap_or(0)
    }

    /// Text of mostly plain bytes, with many of those that matter.
    fn text(&mut self, length: usize) -> Vec<u8> {
        const MARKS: &[&[u8]] =
            &[b"\"", b"\\", b"\\\\", b"\\\"", b"\\u00e9", b"\\u12", b"\n", b"\x1f", b"\xc3\xa9", b"\\n"];
        let mut text = Vec::new();
        let plain = self.next(40).saturating_add(2);
        while text.len() < length {
            if self.next(plain) == 0 {
                text.extend_from_slice(MARKS.get(self.next(MARKS.len())).copied().unwrap_or_default());
            } else {
                text.push(b'a');
            }
        }
        text
    }
}

/// Where the string ends and whether it has escapes, found byte by byte; none where it is not a string.
fn string_end_by_bytes(data: &[u8], start: usize) -> Option<(usize, bool)> {
    let (mut at, mut escaped) = (start, false);
    loop {
        match data.get(at) {
            None => return None,
            Some(b'"') => return Some((at, escaped)),
            Some(byte) if *byte < 0x20 => return None,
            Some(b'\\') => {
                escaped = true;
                let place = at.saturating_add(1);
                at = match data.get(place) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => place.saturating_add(1),
                    Some(b'u') => {
                        let digits = data.get(place.saturating_add(1)..place.saturating_add(5)).unwrap_or_default();
                        if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                            return None;
                        }
                        place.saturating_add(5)
                    }
                    _ => return None,
                };
            }
            Some(_) => at = at.saturating_add(1),
        }
    }
}

fn compare(data: &[u8], start: usize) {
    // A string that is wrong in two places may be refused for either.
    let found = scan::string_end(data.get(start..).unwrap_or_default()).ok();
    let found = found.map(|(end, escaped)| (start.saturating_add(end), escaped));
    assert_eq!(found, string_end_by_bytes(data, start), "{data:?} from {start}");
}

#[test]
fn strings_end_as_byte_by_byte() {
    let mut bytes = Bytes(7);
    for round in 0..60_000 {
        let length = bytes.next(300);
        let mut data = bytes.text(length);
        if round % 3 == 0 {
            data.push(b'"');
        }
        compare(&data, bytes.next(20).min(data.len()));
    }
}

#[test]
fn runs_of_backslashes_across_blocks() {
    for before in 0..150 {
        for run in 0..70 {
            for after in [&b"\""[..], b"\"\"", b"n\"", b"u00e9\"", b"u00e\"", b"x\"", b""] {
                let mut data = vec![b'a'; before];
                data.extend(std::iter::repeat_n(b'\\', run));
                data.extend_from_slice(after);
                compare(&data, 0);
            }
        }
    }
}

#[test]
fn lanes_say_what_bytes_are() {
    let mut bytes = Bytes(11);
    for _ in 0..20_000 {
        let mut block = [0_u8; 16];
        for slot in &mut block {
            let any = u8::try_from(bytes.next(256)).unwrap_or(0);
            *slot = [any, b'"', b'\\', 0x1F, 0x20, 0x80, 0xFF, any].get(bytes.next(8)).copied().unwrap_or(any);
        }
        let bits =
            |test: fn(u8) -> bool| block.iter().rev().fold(0_u64, |mask, byte| mask << 1 | u64::from(test(*byte)));
        let (quotes, backslashes, controls) = scan::lanes::split(block);
        assert_eq!(quotes, bits(|byte| byte == b'"'));
        assert_eq!(backslashes, bits(|byte| byte == b'\\'));
        assert_eq!(controls, bits(|byte| byte < 0x20));
        let special = bits(|byte| byte == b'"' || byte == b'\\' || byte < 0x20);
        assert_eq!(scan::lanes::special(block), special);
        assert_eq!(scan::backslash_at(block), block.iter().position(|byte| *byte == b'\\'));
    }
}

#[test]
fn escapes_resolve_wherever_they_stand() {
    let escapes: &[(&str, &str)] = &[
        ("\\n", "\n"),
        ("\\\\", "\\"),
        ("\\/", "/"),
        ("\\u00e9", "é"),
        ("\\ud83d\\ude00", "😀"),
        ("\\uD83D\\uDE00", "😀"),
        ("\\u0000", "\0"),
    ];
    for before in 0..70 {
        for after in [0, 1, 15, 16, 17, 40] {
            for (spelled, meant) in escapes {
                let (start, end) = ("a".repeat(before), "b".repeat(after));
                let text = format!("\"{start}{spelled}{end}{spelled}\"");
                let read = Cursor::in_text(text.as_bytes()).string();
                let found = read.ok().and_then(|text| text.resolve().map(std::borrow::Cow::into_owned));
                assert_eq!(found, Some(format!("{start}{meant}{end}{meant}")));
            }
            for half in ["\\ud83d", "\\ude00", "\\ud83dx", "\\ud83d\\u0041", "\\ude00\\ud83d"] {
                let text = format!("\"{}{half}{}\"", "a".repeat(before), "b".repeat(after));
                let read = Cursor::in_text(text.as_bytes()).string();
                assert!(read.is_ok_and(|text| text.resolve().is_none()));
            }
        }
    }
}

#[test]
fn quoted_json_reads_like_what_it_quotes() {
    let texts = [
        "{}",
        " { } ",
        r#"{"numRecords":1000,"minValues":{"id":-12,"s":"é key-0000000000000000-x","t":[1.5e3,true,null,{"":""}]},"n":0}"#,
        r#"{"a":1}x"#,
        r#"{"a":01}"#,
        r#"{"a":"}"#,
        r#"{"a":"b" "c"}"#,
        "[1234567890123456789012345678901234567890.5, -]",
    ];
    for text in texts {
        let line = format!("\"{}\",", text.replace('"', "\\\""));
        let expected = {
            let mut cursor = Cursor::in_text(text.as_bytes());
            cursor.skip(0).is_ok() && cursor.skip_blanks().is_none()
        };
        let mut cursor = Cursor::in_lines(line.as_bytes(), 0);
        let read = cursor.quoted(|cursor| {
            cursor.skip(0)?;
            cursor.skip_blanks();
            Ok(())
        });
        assert_eq!(read.is_some(), expected, "{text}");
        assert_eq!(cursor.at(), if expected { line.len().saturating_sub(1) } else { 0 }, "{text}");
    }
    for other in ["\"{\\\"a\\\":\\\"\\\\\\\\\\\"}\"", "\"{\\u0022a\\u0022:1}\"", "\"{\n}\"", "\"{}", "\"{\\\"a\":1}\""]
    {
        assert_eq!(Cursor::in_lines(other.as_bytes(), 0).quoted(|cursor| cursor.skip(0)), None, "{other}");
    }
}
