use super::*;
use proptest::prelude::*;

fn changed<'a>(path: &'a str, base: &'a str, candidate: &'a str) -> ChangedFile<'a> {
    ChangedFile {
        base: Some(FileVersion { path, text: base }),
        candidate: Some(FileVersion { path, text: candidate }),
    }
}

fn deleted<'a>(path: &'a str, base: &'a str) -> ChangedFile<'a> {
    ChangedFile { base: Some(FileVersion { path, text: base }), candidate: None }
}

fn added<'a>(path: &'a str, candidate: &'a str) -> ChangedFile<'a> {
    ChangedFile { base: None, candidate: Some(FileVersion { path, text: candidate }) }
}

fn found(changes: &[ChangedFile<'_>]) -> Vec<String> {
    weakenings(changes, &[]).iter().map(ToString::to_string).collect()
}

/// One test in each language, with a second one so that the file is never emptied.
const RUST: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        let sum = add(1, 2);\n        assert_eq!(sum, 3);\n    }\n\n    #[tokio::test]\n    async fn waits() {\n        assert!(wait().await);\n    }\n}\n";
const PYTHON: &str = "import pytest\n\n\nclass TestSum:\n    def test_adds(self):\n        total = add(1, 2)\n        assert total == 3\n\n    async def test_waits(self):\n        assert await wait()\n";
const TYPESCRIPT: &str = "describe('sum', () => {\n  it('adds', () => {\n    const sum = add(1, 2);\n    expect(sum).toBe(3);\n  });\n\n  test(\n    \"waits\",\n    async () => {\n      expect(await wait()).toBe(true);\n    });\n});\n";
const GO: &str = "package sum\n\nfunc TestAdds(t *testing.T) {\n\tsum := Add(1, 2)\n\tif sum != 3 {\n\t\tt.Errorf(\"got %d\", sum)\n\t}\n}\n\nfunc TestWaits(t *testing.T) {\n\tif !Wait() {\n\t\tt.Fatal(\"no\")\n\t}\n}\n";
const JAVA: &str = "class SumTest {\n    @Test\n    void adds() {\n        int sum = add(1, 2);\n        assertEquals(3, sum);\n    }\n\n    @ParameterizedTest\n    @ValueSource(ints = {1, 2})\n    void waits(int n) {\n        assertTrue(wait(n));\n    }\n}\n";
const KOTLIN: &str = "class SumTest {\n    @Test\n    fun `adds two`() {\n        val sum = add(1, 2)\n        assertEquals(3, sum)\n    }\n\n    @Test fun waits() {\n        assertTrue(wait())\n    }\n}\n";
const RUBY: &str = "RSpec.describe Sum do\n  it \"adds\" do\n    sum = add(1, 2)\n    expect(sum).to eq(3)\n  end\n\n  it 'waits' do\n    expect(wait).to be(true)\n  end\nend\n";
const MINITEST: &str = "class SumTest < Minitest::Test\n  def test_adds\n    sum = add(1, 2)\n    assert_equal 3, sum\n  end\n\n  def test_waits\n    assert wait\n  end\nend\n";
const PHP: &str = "<?php\nclass SumTest extends TestCase\n{\n    public function testAdds(): void\n    {\n        $sum = add(1, 2);\n        $this->assertSame(3, $sum);\n    }\n\n    #[Test]\n    public function waits(): void\n    {\n        $this->assertTrue(wait());\n    }\n}\n";
const CSHARP: &str = "public class SumTests\n{\n    [Fact]\n    public void Adds()\n    {\n        var sum = Sum.Add(1, 2);\n        Assert.Equal(3, sum);\n    }\n\n    [Test]\n    public async Task Waits()\n    {\n        Assert.True(await Wait());\n    }\n}\n";
const SWIFT: &str = "final class SumTests: XCTestCase {\n    func testAdds() {\n        let sum = add(1, 2)\n        XCTAssertEqual(sum, 3)\n    }\n\n    @Test(\"waits\") func waits() async {\n        #expect(await wait())\n    }\n}\n";
const BATS: &str = "@test \"adds\" {\n  run add 1 2\n  assert_output 3\n}\n\n@test \"waits\" {\n  assert_success\n}\n";

const SAMPLES: [(&str, &str, [&str; 2]); 12] = [
    ("src/sum.rs", RUST, ["adds", "waits"]),
    ("tests/test_sum.py", PYTHON, ["test_adds", "test_waits"]),
    ("src/sum.test.ts", TYPESCRIPT, ["adds", "waits"]),
    ("sum_test.go", GO, ["TestAdds", "TestWaits"]),
    ("src/test/java/SumTest.java", JAVA, ["adds", "waits"]),
    ("src/test/kotlin/SumTest.kt", KOTLIN, ["adds two", "waits"]),
    ("spec/sum_spec.rb", RUBY, ["adds", "waits"]),
    ("test/sum_test.rb", MINITEST, ["test_adds", "test_waits"]),
    ("tests/SumTest.php", PHP, ["testAdds", "waits"]),
    ("Sum.Tests/SumTests.cs", CSHARP, ["Adds", "Waits"]),
    ("Tests/SumTests.swift", SWIFT, ["testAdds", "waits"]),
    ("checks/sum.bats", BATS, ["adds", "waits"]),
];

#[test]
fn the_tests_of_every_language_are_known_by_name() {
    for (path, text, names) in SAMPLES {
        let scan = Scan::of(FileVersion { path, text });
        let found: Vec<_> = scan.tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(found, names, "{path}");
        assert!(scan.tests.iter().all(|test| test.skipped.is_none()), "{path}: {scan:?}");
        assert_eq!((scan.skips, scan.focuses), (vec![], vec![]), "{path}");
    }
}

#[test]
fn a_change_that_touches_no_test_weakens_nothing() {
    for (path, text, _) in SAMPLES {
        let longer = format!("{text}\n\n");
        let shifted = format!("\n{text}");
        for candidate in [text, longer.as_str(), shifted.as_str()] {
            assert_eq!(found(&[changed(path, text, candidate)]), [""; 0], "{path}");
        }
    }
}

#[test]
fn a_deleted_file_of_tests_is_found_and_a_renamed_one_is_not() {
    for (path, text, _) in SAMPLES {
        assert_eq!(
            found(&[deleted(path, text)]),
            [format!("{path}: a file of tests was deleted")],
            "{path}"
        );
        let new = path.replace("um", "ums");
        let rename = ChangedFile {
            base: Some(FileVersion { path, text }),
            candidate: Some(FileVersion { path: &new, text }),
        };
        assert_eq!(found(&[rename]), [""; 0], "{path}");
        // The same without rename detection: one file deleted, another added.
        assert_eq!(found(&[deleted(path, text), added(&new, text)]), [""; 0], "{path}");
    }
}

#[test]
fn an_emptied_file_and_one_moved_out_of_sight_are_found() {
    assert_eq!(
        found(&[changed("tests/test_sum.py", PYTHON, "\n")]),
        ["tests/test_sum.py: a file of tests was emptied"]
    );
    let moved = ChangedFile {
        base: Some(FileVersion { path: "src/sum.test.ts", text: TYPESCRIPT }),
        candidate: Some(FileVersion { path: "attic/sum.ts.txt", text: TYPESCRIPT }),
    };
    assert_eq!(
        found(&[moved]),
        ["attic/sum.ts.txt: the tests of `src/sum.test.ts` were moved where no runner finds them"]
    );
}

/// Returns the sample without its first test, given the lines of the test.
fn without_lines(text: &str, from: usize, to: usize) -> String {
    let lines = text.split_inclusive('\n').enumerate();
    lines.filter(|(at, _)| !(from..=to).contains(&(at + 1))).map(|(_, line)| line).collect()
}

#[test]
fn a_deleted_test_is_found_and_one_that_moved_to_another_file_is_not() {
    for (path, text, from, to, name, elsewhere) in [
        ("src/sum.rs", RUST, 3, 7, "adds", "tests/more.rs"),
        ("tests/test_sum.py", PYTHON, 5, 7, "test_adds", "tests/test_more.py"),
        ("src/sum.test.ts", TYPESCRIPT, 2, 5, "adds", "src/more.test.ts"),
        ("sum_test.go", GO, 3, 8, "TestAdds", "more_test.go"),
        ("src/test/java/SumTest.java", JAVA, 2, 6, "adds", "src/test/java/MoreTest.java"),
        ("spec/sum_spec.rb", RUBY, 2, 5, "adds", "spec/more_spec.rb"),
        ("tests/SumTest.php", PHP, 4, 8, "testAdds", "tests/MoreTest.php"),
        ("Sum.Tests/SumTests.cs", CSHARP, 3, 8, "Adds", "Sum.Tests/MoreTests.cs"),
        ("Tests/SumTests.swift", SWIFT, 2, 5, "testAdds", "Tests/MoreTests.swift"),
        ("checks/sum.bats", BATS, 1, 4, "adds", "checks/more.bats"),
    ] {
        let less = without_lines(text, from, to);
        let expected = [format!("{path}: the test `{name}` was deleted")];
        assert_eq!(found(&[changed(path, text, &less)]), expected, "{path}");
        assert_eq!(found(&[changed(path, text, &less), added(elsewhere, text)]), [""; 0], "{path}");
        // A test of that name in another language does not count as the moved test.
        let foreign = if path == "src/sum.rs" { "tests/test_other.py" } else { "tests/other.rs" };
        assert_eq!(found(&[changed(path, text, &less), added(foreign, text)]), expected, "{path}");
    }
}

#[test]
fn a_commented_out_test_is_a_deleted_one() {
    let commented: String = RUST
        .lines()
        .enumerate()
        .map(
            |(at, line)| {
                if (2..7).contains(&at) { format!("// {line}\n") } else { format!("{line}\n") }
            },
        )
        .collect();
    assert_eq!(
        found(&[changed("src/sum.rs", RUST, &commented)]),
        [
            "src/sum.rs: the test `adds` was deleted",
            "src/sum.rs:6: the assertion `assert_eq!(sum, 3);` was commented out",
        ]
    );
}

#[test]
fn a_renamed_test_with_the_same_body_is_there_still() {
    for (path, text, old, new) in [
        ("src/sum.rs", RUST, "fn adds", "fn adds_two_numbers"),
        ("tests/test_sum.py", PYTHON, "def test_adds", "def test_adds_two_numbers"),
        ("src/sum.test.ts", TYPESCRIPT, "'adds'", "'adds two numbers'"),
        ("sum_test.go", GO, "TestAdds", "TestAddsTwoNumbers"),
    ] {
        assert_eq!(found(&[changed(path, text, &text.replace(old, new))]), [""; 0], "{path}");
    }
}

#[test]
fn a_test_that_is_replaced_by_another_is_deleted() {
    let other = PYTHON
        .replace("test_adds", "test_nothing")
        .replace("total = add(1, 2)", "pass")
        .replace("assert total == 3", "assert True");
    assert_eq!(
        found(&[changed("tests/test_sum.py", PYTHON, &other)]),
        ["tests/test_sum.py: the test `test_adds` was deleted"]
    );
}

/// Ways to skip a test of a sample: file, sample, replaced text, replacement, and the expected finding.
const SKIPS: [(&str, &str, &str, &str, &str); 34] = [
    (
        "src/sum.rs",
        RUST,
        "#[test]\n",
        "#[test]\n    #[ignore = \"slow\"]\n",
        "4: the test `adds` no longer runs because of `#[ignore = \"slow\"]`",
    ),
    (
        "src/sum.rs",
        RUST,
        "#[test]\n",
        "#[cfg(any())]\n    #[test]\n",
        "3: the test `adds` no longer runs because of `#[cfg(any())]`",
    ),
    (
        "src/sum.rs",
        RUST,
        "#[test]\n",
        "#[test] #[cfg_attr(all(), ignore)]\n",
        "3: the test `adds` no longer runs because of `#[test] #[cfg_attr(all(), ignore)]`",
    ),
    (
        "src/sum.rs",
        RUST,
        "#[cfg(test)]",
        "#[cfg(any())]",
        "1: tests no longer run because of `#[cfg(any())]`",
    ),
    (
        "src/sum.rs",
        RUST,
        "#[cfg(test)]",
        "#![cfg(feature = \"never\")]\n#[cfg(test)]",
        "1: tests no longer run because of `#![cfg(feature = \"never\")]`",
    ),
    (
        "tests/test_sum.py",
        PYTHON,
        "    def test_adds",
        "    @pytest.mark.skip(reason=\"later\")\n    def test_adds",
        "5: the test `test_adds` no longer runs because of `@pytest.mark.skip(reason=\"later\")`",
    ),
    (
        "tests/test_sum.py",
        PYTHON,
        "    def test_adds",
        "    @pytest.mark.xfail\n    def test_adds",
        "5: the test `test_adds` no longer runs because of `@pytest.mark.xfail`",
    ),
    (
        "tests/test_sum.py",
        PYTHON,
        "total = add",
        "pytest.skip(\"x\")\n        total = add",
        "6: the test `test_adds` no longer runs because of `pytest.skip(\"x\")`",
    ),
    (
        "tests/test_sum.py",
        PYTHON,
        "class TestSum:",
        "@unittest.skip('x')\nclass TestSum:",
        "4: tests no longer run because of `@unittest.skip('x')`",
    ),
    (
        "tests/test_sum.py",
        PYTHON,
        "import pytest",
        "import pytest\npytestmark = pytest.mark.skip",
        "2: tests no longer run because of `pytestmark = pytest.mark.skip`",
    ),
    (
        "src/sum.test.ts",
        TYPESCRIPT,
        "it('adds'",
        "it.skip('adds'",
        "2: the test `adds` no longer runs because of `it.skip('adds', () => {`",
    ),
    (
        "src/sum.test.ts",
        TYPESCRIPT,
        "it('adds'",
        "xit('adds'",
        "2: the test `adds` no longer runs because of `xit('adds', () => {`",
    ),
    (
        "src/sum.test.ts",
        TYPESCRIPT,
        "it('adds', ",
        "it('adds', { skip: true }, ",
        "2: the test `adds` no longer runs because of `it('adds', { skip: true }, () => {`",
    ),
    (
        "src/sum.test.ts",
        TYPESCRIPT,
        "test(\n",
        "test.todo(\n",
        "7: the test `waits` no longer runs because of `test.todo(`",
    ),
    (
        "src/sum.test.ts",
        TYPESCRIPT,
        "describe('sum'",
        "describe.skip('sum'",
        "1: tests no longer run because of `describe.skip('sum', () => {`",
    ),
    (
        "src/sum.test.ts",
        TYPESCRIPT,
        "it('adds'",
        "it.only('adds'",
        "2: all other tests are left out by `it.only('adds', () => {`",
    ),
    (
        "src/sum.test.ts",
        TYPESCRIPT,
        "describe('sum'",
        "fdescribe('sum'",
        "1: all other tests are left out by `fdescribe('sum', () => {`",
    ),
    (
        "sum_test.go",
        GO,
        "\tsum := Add",
        "\tt.Skip(\"later\")\n\tsum := Add",
        "4: the test `TestAdds` no longer runs because of `t.Skip(\"later\")`",
    ),
    (
        "sum_test.go",
        GO,
        "package sum",
        "//go:build never\n\npackage sum",
        "1: tests no longer run because of `//go:build never`",
    ),
    (
        "src/test/java/SumTest.java",
        JAVA,
        "    @Test\n",
        "    @Disabled(\"x\")\n    @Test\n",
        "2: the test `adds` no longer runs because of `@Disabled(\"x\")`",
    ),
    (
        "src/test/java/SumTest.java",
        JAVA,
        "class SumTest",
        "@Ignore\nclass SumTest",
        "1: tests no longer run because of `@Ignore`",
    ),
    (
        "src/test/java/SumTest.java",
        JAVA,
        "@Test\n",
        "@Test(enabled = false)\n",
        "2: the test `adds` no longer runs because of `@Test(enabled = false)`",
    ),
    (
        "src/test/kotlin/SumTest.kt",
        KOTLIN,
        "    @Test\n",
        "    @Disabled @Test\n",
        "2: the test `adds two` no longer runs because of `@Disabled @Test`",
    ),
    (
        "spec/sum_spec.rb",
        RUBY,
        "it \"adds\"",
        "xit \"adds\"",
        "2: the test `adds` no longer runs because of `xit \"adds\" do`",
    ),
    (
        "spec/sum_spec.rb",
        RUBY,
        "sum = add",
        "skip\n    sum = add",
        "3: the test `adds` no longer runs because of `skip`",
    ),
    (
        "spec/sum_spec.rb",
        RUBY,
        "it \"adds\" do",
        "it \"adds\", skip: true do",
        "2: the test `adds` no longer runs because of `it \"adds\", skip: true do`",
    ),
    (
        "spec/sum_spec.rb",
        RUBY,
        "it \"adds\"",
        "fit \"adds\"",
        "2: all other tests are left out by `fit \"adds\" do`",
    ),
    (
        "test/sum_test.rb",
        MINITEST,
        "sum = add",
        "skip 'x'\n    sum = add",
        "3: the test `test_adds` no longer runs because of `skip 'x'`",
    ),
    (
        "tests/SumTest.php",
        PHP,
        "$sum = add",
        "$this->markTestSkipped();\n        $sum = add",
        "6: the test `testAdds` no longer runs because of `$this->markTestSkipped();`",
    ),
    (
        "Sum.Tests/SumTests.cs",
        CSHARP,
        "[Fact]",
        "[Fact(Skip = \"x\")]",
        "3: the test `Adds` no longer runs because of `[Fact(Skip = \"x\")]`",
    ),
    (
        "Sum.Tests/SumTests.cs",
        CSHARP,
        "[Test]",
        "[Test, Ignore(\"x\")]",
        "10: the test `Waits` no longer runs because of `[Test, Ignore(\"x\")]`",
    ),
    (
        "Tests/SumTests.swift",
        SWIFT,
        "let sum",
        "throw XCTSkip(\"x\")\n        let sum",
        "3: the test `testAdds` no longer runs because of `throw XCTSkip(\"x\")`",
    ),
    (
        "Tests/SumTests.swift",
        SWIFT,
        "@Test(\"waits\")",
        "@Test(\"waits\", .disabled(\"x\"))",
        "7: the test `waits` no longer runs because of `@Test(\"waits\", .disabled(\"x\")) func waits() async {`",
    ),
    (
        "checks/sum.bats",
        BATS,
        "run add",
        "skip later\n  run add",
        "2: the test `adds` no longer runs because of `skip later`",
    ),
];

#[test]
fn a_skipped_test_is_found_in_every_language() {
    for (path, text, old, new, expected) in SKIPS {
        let weaker = text.replacen(old, new, 1);
        assert_ne!(weaker, text, "{path}: {old}");
        assert_eq!(found(&[changed(path, text, &weaker)]), [format!("{path}:{expected}")]);
        // Removing the mark or keeping it weakens nothing.
        assert_eq!(found(&[changed(path, &weaker, text)]), [""; 0], "{path}: {new}");
        assert_eq!(found(&[changed(path, &weaker, &weaker)]), [""; 0], "{path}: {new}");
    }
}

#[test]
fn new_tests_and_new_files_are_free() {
    let with_new = RUST.replacen(
        "    #[test]\n",
        "    #[test]\n    #[ignore]\n    fn later() {}\n\n    #[test]\n",
        1,
    );
    assert_eq!(found(&[changed("src/sum.rs", RUST, &with_new)]), [""; 0]);
    let skipped = TYPESCRIPT.replace("it(", "it.skip(");
    assert_eq!(found(&[added("src/new.test.ts", &skipped)]), [""; 0]);
    assert_eq!(found(&[added(".github/workflows/ci.yml", "continue-on-error: true\n")]), [""; 0]);
}

#[test]
fn a_test_that_was_skipped_already_may_go() {
    let skipped = RUST.replacen("#[test]\n", "#[test]\n    #[ignore]\n", 1);
    let less = without_lines(&skipped, 3, 8);
    assert_eq!(found(&[changed("src/sum.rs", &skipped, &less)]), [""; 0]);
}

#[test]
fn a_hollowed_test_and_an_assertion_turned_into_a_comment_are_found() {
    let hollow = RUST.replace("        let sum = add(1, 2);\n        assert_eq!(sum, 3);\n", "");
    assert_eq!(
        found(&[changed("src/sum.rs", RUST, &hollow)]),
        ["src/sum.rs:4: the test `adds` no longer asserts anything"]
    );
    let hollow = PYTHON
        .replace("        total = add(1, 2)\n        assert total == 3\n", "        assert True\n");
    assert_eq!(
        found(&[changed("tests/test_sum.py", PYTHON, &hollow)]),
        ["tests/test_sum.py:5: the test `test_adds` no longer asserts anything"]
    );
    let commented = TYPESCRIPT.replace("    expect(sum)", "    // expect(sum)");
    assert_eq!(
        found(&[changed("src/sum.test.ts", TYPESCRIPT, &commented)]),
        [
            "src/sum.test.ts:2: the test `adds` no longer asserts anything",
            "src/sum.test.ts:4: the assertion `expect(sum).toBe(3);` was commented out",
        ]
    );
}

#[test]
fn what_only_looks_like_a_test_is_none() {
    for (path, text) in [
        ("src/sum.ts", "test('x');\nit('y', () => {});\n"),
        (
            "src/view.test.ts",
            "test.beforeEach(() => {});\nregex.test('x');\nitem('y');\nsubmit('z');\n",
        ),
        (
            "src/lib.rs",
            "const SAMPLE: &str = r#\"\n#[test]\nfn inside() {}\n\"#;\n// #[test]\nfn real() {}\n",
        ),
        ("app/models.py", "def test_connection():\n    pass\n"),
        ("sum.go", "func TestMain(m *testing.M) {}\n"),
        ("README.md", "#[test]\nfn a() {}\n"),
    ] {
        assert_eq!(Scan::of(FileVersion { path, text }), Scan::default(), "{path}");
    }
}

#[test]
fn names_in_tables_of_cases_are_found() {
    let text = "it.each([\n  [1, 2],\n  ['a', 'b'],\n])('adds %i', (a, b) => {\n  expect(a).toBe(b);\n});\ntest.each([[1]])(\"one %i\", (a) => {});\ntest.skip();\n";
    let scan = Scan::of(FileVersion { path: "a.test.js", text });
    let names: Vec<_> =
        scan.tests.iter().map(|test| (test.name.as_str(), test.skipped.is_some())).collect();
    assert_eq!(names, [("adds %i", false), ("one %i", true)]);
}

const CI: &str = "jobs:\n  test:\n    steps:\n      - run: cargo test\n      - run: docker stop db || true\n  lint:\n    steps:\n      - run: cargo clippy -- -D warnings\n";

#[test]
fn ci_that_is_removed_or_defused_is_found() {
    let path = ".github/workflows/ci.yml";
    assert_eq!(found(&[deleted(path, CI)]), [format!("{path}: a file of CI was deleted")]);
    for (old, new, expected) in [
        (
            "  test:\n",
            "  test:\n    continue-on-error: true\n",
            vec![":3: CI no longer fails because of `continue-on-error: true`"],
        ),
        (
            "cargo test",
            "cargo test || true",
            vec![":4: CI no longer fails because of `- run: cargo test || true`"],
        ),
        ("cargo test", "echo ok", vec![": CI ran 2 checks in this file and now runs 1"]),
        (
            "      - run: cargo clippy",
            "      # - run: cargo clippy",
            vec![": CI ran 2 checks in this file and now runs 1"],
        ),
        ("cargo test", "cargo nextest run", vec![]),
        ("docker stop db || true", "docker rm db || true", vec![]),
    ] {
        let expected: Vec<_> = expected.iter().map(|what| format!("{path}{what}")).collect();
        assert_eq!(found(&[changed(path, CI, &CI.replace(old, new))]), expected, "{new}");
    }
}

#[test]
fn any_change_of_the_gates_is_found() {
    assert_eq!(
        found(&[changed("ralph.toml", "[[gate]]\nname = \"a\"\n", "")]),
        ["ralph.toml: a file of the gates was emptied"]
    );
    assert_eq!(
        found(&[changed("ralph.toml", "[[gate]]\nname = \"a\"\n", "agent = \"x\"\n")]),
        ["ralph.toml: the configuration of the gates was changed"]
    );
}

#[test]
fn a_runner_that_is_told_to_leave_tests_out_is_found() {
    for (path, base, candidate, line) in [
        (
            "pytest.ini",
            "[pytest]\naddopts = -q\n",
            "[pytest]\naddopts = -q --deselect tests/test_a.py\n",
            2,
        ),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\n",
            "[tool.pytest.ini_options]\naddopts = [\"--ignore=tests/slow\"]\n",
            2,
        ),
        (
            "setup.cfg",
            "[tool:pytest]\nnorecursedirs =\n    a\n",
            "[tool:pytest]\nnorecursedirs =\n    a\n    tests/slow\n",
            2,
        ),
        ("tests/conftest.py", "import x\n", "import x\ncollect_ignore = [\"test_a.py\"]\n", 2),
        (
            "jest.config.js",
            "module.exports = {\n  testPathIgnorePatterns: [\n    'dist',\n  ],\n};\n",
            "module.exports = {\n  testPathIgnorePatterns: [\n    'dist',\n    'slow',\n  ],\n};\n",
            2,
        ),
        ("package.json", "{\"jest\": {}}\n", "{\"jest\": {\n\"passWithNoTests\": true}}\n", 2),
        (
            "package.json",
            "{\n  \"scripts\": {\n    \"test\": \"jest\"\n  }\n}\n",
            "{\n  \"scripts\": {\n    \"test\": \"echo ok\"\n  }\n}\n",
            3,
        ),
        (
            "vitest.config.ts",
            "export default {\n}\n",
            "export default {\n  test: { exclude: ['a.test.ts'] }\n}\n",
            2,
        ),
        ("Cargo.toml", "[lib]\nname = \"a\"\n", "[lib]\nname = \"a\"\ntest = false\n", 3),
        (
            "pom.xml",
            "<project>\n</project>\n",
            "<project>\n<skipTests>true</skipTests>\n</project>\n",
            2,
        ),
        ("build.gradle", "test {\n}\n", "test {\n  ignoreFailures = true\n}\n", 2),
        ("Makefile", "test:\n\tcargo test\n", "test:\n\t-cargo test\n", 2),
        ("Makefile", "test:\n\tcargo test\n", "test:\n\tcargo test || true\n", 2),
    ] {
        let found = weakenings(&[changed(path, base, candidate)], &[]);
        assert!(
            matches!(found.as_slice(), [Weakening { line: Some(at), what: Weakened::RunnerDefused { .. }, .. }] if *at == line),
            "{path}: {found:?}"
        );
        assert_eq!(weakenings(&[changed(path, candidate, base)], &[]), [], "{path}");
    }
}

#[test]
fn ordinary_changes_of_configuration_are_free() {
    for (path, base, candidate) in [
        ("Cargo.toml", "[dependencies]\n", "[dependencies]\nserde = \"1\"\n"),
        (
            "package.json",
            "{\n  \"version\": \"1\"\n}\n",
            "{\n  \"version\": \"2\",\n  \"description\": \"does not ignore\"\n}\n",
        ),
        ("package.json", "{\n  \"test\": \"jest\"\n}\n", "{\n  \"test\": \"vitest run\"\n}\n"),
        ("pyproject.toml", "[project]\n", "[project]\ndescription = \"it is not much\"\n"),
        (
            "build.gradle",
            "dependencies {\n}\n",
            "dependencies {\n  implementation('a') { exclude group: 'b' }\n}\n",
        ),
        ("Makefile", "clean:\n\trm x\n", "clean:\n\t-rm x || true\n"),
    ] {
        assert_eq!(found(&[changed(path, base, candidate)]), [""; 0], "{path}");
    }
}

#[test]
fn what_the_person_allows_is_not_reported() {
    let allowed = [Glob::new("tests/legacy/**")];
    let changes = [deleted("tests/legacy/test_a.py", PYTHON), deleted("tests/test_b.py", PYTHON)];
    let paths: Vec<_> =
        weakenings(&changes, &allowed).into_iter().map(|found| found.path).collect();
    assert_eq!(paths, ["tests/test_b.py"]);
}

proptest! {
    #[test]
    fn any_text_can_be_compared_and_a_file_is_no_weaker_than_itself(
        at in 0..SAMPLES.len(),
        cut in 0.0..1.0_f64,
        junk in "(\\PC|\n){0,80}",
    ) {
        let (path, text, _) = SAMPLES[at];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss,
            reason = "a place in a short text")]
        let middle = text.floor_char_boundary((text.len() as f64 * cut) as usize);
        let spoilt = format!("{}{junk}{}", &text[..middle], &text[middle..]);
        prop_assert_eq!(weakenings(&[changed(path, &spoilt, &spoilt)], &[]), []);
        weakenings(&[changed(path, text, &spoilt), deleted(path, &spoilt)], &[]);
    }
}
