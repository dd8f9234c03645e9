//! One spelling per file: paths in the log are URIs, and a writer may name a file by its bare path in
//! one action and by a `file:` URI in another (DL-REC-10).

use std::borrow::Cow;

use crate::locations::percent_decode;

/// Returns the bytes by which a path is compared: without the scheme of local files, with `s3:` for
/// Hadoop's names of S3, and with percent escapes decoded once.
pub(super) fn canonical(path: &[u8]) -> Cow<'_, [u8]> {
    let path = local_part(path);
    let body = match hadoop_s3(path) {
        Some(rest) => Cow::Owned([b"s3://", rest].concat()),
        None => Cow::Borrowed(path),
    };
    if memchr::memchr(b'%', &body).is_none() {
        return body;
    }
    let mut decoded = Vec::with_capacity(body.len());
    percent_decode(&body, &mut decoded);
    Cow::Owned(decoded)
}

/// `file:/x`, `file:///x` and `file://localhost/x` are `/x`.
fn local_part(path: &[u8]) -> &[u8] {
    let Some(rest) = path.strip_prefix(b"file:") else { return path };
    let after = rest.strip_prefix(b"//").map_or(rest, |after| after.strip_prefix(b"localhost").unwrap_or(after));
    if after.starts_with(b"/") { after } else { path }
}

fn hadoop_s3(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(b"s3a://").or_else(|| path.strip_prefix(b"s3n://"))
}
