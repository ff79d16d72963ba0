//! What readers get from a rendering.

use http_body_util::BodyExt;

use super::*;
use crate::cli::fixture;

fn rendered() -> Rendered {
    let (_, snapshot) = fixture::node();
    Rendered::new(snapshot, Format::OpenMetrics, &MetricsConfig::default()).expect("encodes")
}

fn headers(encoding: &'static str) -> HeaderMap {
    [(header::ACCEPT_ENCODING, HeaderValue::from_static(encoding))].into_iter().collect()
}

#[tokio::test]
async fn a_reader_without_gzip_gets_what_the_others_unpack() {
    let rendered = rendered();
    let packed = rendered.clone().answer(&headers("gzip"));
    assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
    let packed = packed.into_body().collect().await.expect("a body").to_bytes();
    let mut text = String::new();
    GzDecoder::new(&*packed).read_to_string(&mut text).expect("gzip");
    let plain = rendered.answer(&HeaderMap::new());
    let length = hyper::body::Body::size_hint(plain.body()).exact();
    let plain = plain.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(length, Some(plain.len() as u64));
    assert!(text.len() > 10_000 && text.ends_with("# EOF\n"), "{}", text.len());
    assert_eq!(text.as_bytes(), plain);
}

#[tokio::test]
async fn a_plain_answer_is_unpacked_a_part_at_a_time() {
    let mut body = rendered().answer(&HeaderMap::new()).into_body();
    while let Some(frame) = body.frame().await {
        let part = frame.expect("a part").into_data().expect("data");
        assert!(!part.is_empty() && part.len() as u64 <= PART, "{}", part.len());
    }
}

#[test]
fn readers_share_the_bytes() {
    let rendered = rendered();
    assert_eq!(rendered.clone().gzip.as_ptr(), rendered.gzip.as_ptr());
}

#[test]
fn gzip_is_for_readers_that_name_it() {
    let cases = [
        ("gzip", true),
        ("deflate, GZIP;q=0.5, br", true),
        ("identity, *;q=0.1", true),
        ("gzip;q=0, *", false),
        ("gzip; q=0.0", false),
        ("identity", false),
        ("", false),
    ];
    for (encoding, takes) in cases {
        assert_eq!(takes_gzip(&headers(encoding)), takes, "{encoding}");
    }
}
