//! The languages whose tests are recognised.
//!
//! | language | a test | not run any more | the others not run |
//! |---|---|---|---|
//! | Rust | `#[test]`, `#[tokio::test]`, `#[rstest]`, … | `#[ignore]`, `#[cfg(any())]`, behind a feature | |
//! | Python | `def test_…` | `skip`, `skipif`, `xfail` marks and calls, `skipTest`, `__test__ = False` | |
//! | JavaScript, TypeScript | `it(`, `test(`, `Deno.test(` | `.skip`, `.todo`, `.fixme`, `xit`, `xdescribe`, `{ skip: true }` | `.only`, `fit`, `fdescribe` |
//! | Go | `func Test…(`, `Fuzz`, `Example` | `t.Skip(…)`, a build constraint | |
//! | Java, Kotlin, Groovy, Scala | `@Test`, `@ParameterizedTest`, … | `@Disabled…`, `@Ignore`, `enabled = false`, `assumeTrue(false)` | |
//! | C# | `[Fact]`, `[Test]`, `[TestMethod]`, … | `[Ignore]`, `Skip = "…"`, `Assert.Ignore(` | |
//! | Ruby | `it "…"`, `test "…"`, `def test_…` | `xit`, `skip`, `pending`, `skip:` | `fit`, `focus: true` |
//! | PHP | `function test…(`, `#[Test]`, `it('…')` | `markTestSkipped(`, `->skip(` | `->only(` |
//! | Swift | `func test…(`, `@Test` | `XCTSkip`, `.disabled(` | |
//! | bats | `@test "…"` | `skip` | |

use super::signs;
use super::source::{LongString, Syntax};

/// The meaning of one line for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The next function is a test.
    TestFollows,
    /// The following item is not run.
    SkipFollows,
    /// The enclosing test is not run from here on.
    SkipHere,
    /// Several tests are not run.
    SkipAll,
    /// Other tests are not run.
    Focus,
    Test {
        name: String,
        skipped: bool,
    },
    Function {
        name: String,
    },
    /// A class, module or suite begins.
    Container,
}

/// A line of source, with the lines after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourceLine<'a> {
    /// Without comments and surrounding blanks.
    pub(super) code: &'a str,
    pub(super) raw: &'a str,
    /// The code of the lines below.
    pub(super) below: &'a [String],
}

/// A language whose tests are recognised.
#[derive(Debug)]
pub(super) struct Language {
    /// Tests can move only between files of one family.
    pub(super) family: &'static str,
    extensions: &'static [&'static str],
    pub(super) syntax: Syntax,
    /// Whether tests are marked explicitly, so that they are recognised in any file.
    pub(super) tests_anywhere: bool,
    pub(super) signs: fn(SourceLine<'_>) -> Vec<Sign>,
}

impl Language {
    /// Returns the language of a file by its name.
    pub(super) fn of(path: &str) -> Option<&'static Language> {
        let name = path.rsplit('/').next()?;
        let (_, extension) = name.rsplit_once('.')?;
        LANGUAGES.iter().find(|language| language.extensions.contains(&extension))
    }
}

const C_LIKE: Syntax =
    Syntax { line_comments: &["//"], block_comments: true, long_strings: &[], single_quotes: true };

const SCRIPT: Syntax = Syntax { line_comments: &["#"], block_comments: false, ..C_LIKE };

static LANGUAGES: [Language; 10] = [
    Language {
        family: "rust",
        extensions: &["rs"],
        syntax: Syntax {
            long_strings: &[LongString::Raw, LongString::Quotes],
            single_quotes: false,
            ..C_LIKE
        },
        tests_anywhere: true,
        signs: signs::rust,
    },
    Language {
        family: "python",
        extensions: &["py"],
        syntax: Syntax { long_strings: &[LongString::TripleQuotes], ..SCRIPT },
        tests_anywhere: false,
        signs: signs::python,
    },
    Language {
        family: "javascript",
        extensions: &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"],
        syntax: Syntax { long_strings: &[LongString::Backticks], ..C_LIKE },
        tests_anywhere: false,
        signs: signs::javascript,
    },
    Language {
        family: "go",
        extensions: &["go"],
        syntax: Syntax { long_strings: &[LongString::Backticks], ..C_LIKE },
        tests_anywhere: false,
        signs: signs::go,
    },
    Language {
        family: "jvm",
        extensions: &["java", "kt", "kts", "groovy", "scala"],
        syntax: Syntax { long_strings: &[LongString::TripleQuotes], ..C_LIKE },
        tests_anywhere: true,
        signs: signs::jvm,
    },
    Language {
        family: "dotnet",
        extensions: &["cs"],
        syntax: C_LIKE,
        tests_anywhere: true,
        signs: signs::csharp,
    },
    Language {
        family: "ruby",
        extensions: &["rb"],
        syntax: SCRIPT,
        tests_anywhere: false,
        signs: signs::ruby,
    },
    Language {
        family: "php",
        extensions: &["php"],
        // A `#` may begin an attribute.
        syntax: Syntax { line_comments: &["//", "# "], ..C_LIKE },
        tests_anywhere: false,
        signs: signs::php,
    },
    Language {
        family: "swift",
        extensions: &["swift"],
        syntax: Syntax { long_strings: &[LongString::TripleQuotes], ..C_LIKE },
        tests_anywhere: true,
        signs: signs::swift,
    },
    Language {
        family: "bats",
        extensions: &["bats"],
        syntax: SCRIPT,
        tests_anywhere: true,
        signs: signs::bats,
    },
];
