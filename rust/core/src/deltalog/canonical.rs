//! One spelling per file: paths in the log are URIs, and a writer may name a file by its bare path in
//! one action and by a `file:` URI in another (DL-REC-10).

use std::borrow::Cow;

use crate::locations::percent_decode;

/// Returns the bytes by which a path is compared: without the scheme of local files, with `s3:` for
/// Hadoop's names of S3, and with percent escapes decoded once.
pub(super) fn canonical(path: &str) -> Cow<'_, [u8]> {
    let path = local_part(path);
    let bytes = path.as_bytes();
    let body: Cow<'_, [u8]> = match hadoop_s3(path) {
        Some(rest) => Cow::Owned([b"s3://", rest.as_bytes()].concat()),
        None => Cow::Borrowed(bytes),
    };
    if memchr::memchr(b'%', &body).is_none() {
        return body;
    }
    let mut decoded = Vec::with_capacity(body.len());
    percent_decode(&body, &mut decoded);
    Cow::Owned(decoded)
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
