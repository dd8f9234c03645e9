//! One spelling per file: paths in the log are URIs, and a writer may name a file by its bare path in
//! one action and by a `file:` URI in another (DL-REC-10).

use std::borrow::Cow;

/// Returns the bytes by which a path is compared: without the scheme of local files, with `s3:` for
/// Hadoop's names of S3, and with percent escapes decoded once.
pub(super) fn canonical(path: &str) -> Cow<'_, [u8]> {
    let path = local_part(path);
    let bytes = path.as_bytes();
    let body: Cow<'_, [u8]> = match hadoop_s3(path) {
        Some(rest) => Cow::Owned([b"s3://", rest.as_bytes()].concat()),
        None => Cow::Borrowed(bytes),
    };
    if memchr::memchr(b'%', &body).is_some() { Cow::Owned(percent_decoded(&body)) } else { body }
}

/// `file:/x`, `file:///x` and `file://localhost/x` are `/x`.
fn local_part(path: &str) -> &str {
    let Some(rest) = path.strip_prefix("file:") else { return path };
    let after = rest.strip_prefix("//").map_or(rest, |after| after.strip_prefix("localhost").unwrap_or(after));
    if after.starts_with('/') { after } else { path }
}

fn hadoop_s3(path: &str) -> Option<&str> {
    path.strip_prefix("s3a://").or_else(|| path.strip_prefix("s3n://"))
}

/// Decodes percent escapes once, and leaves everything else as it is.
fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(place) = memchr::memchr(b'%', rest) {
        let (plain, escape) = rest.split_at_checked(place).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let value = escape.get(1..3).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
        });
        let used = if value.is_some() { 3 } else { 1 };
        out.push(value.unwrap_or(b'%'));
        rest = escape.get(used..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}
