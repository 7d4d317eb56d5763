# What the person's script of an agent can call, to have another project than that of shell scripts.

# A package of Python with two tests of unittest.
python_project() {
  sed -i 's|run = .*|run = ["python3", "-m", "unittest", "-v"]|' ralph.toml
  printf '__pycache__/\n' >.gitignore; touch src/__init__.py tests/__init__.py
  echo 'def add(a, b): return a + b' >src/add.py
  cat >tests/test_add.py <<'END'
import unittest
from src.add import add
class Adds(unittest.TestCase):
    def test_adds(self): self.assertEqual(add(1, 2), 3)
    def test_adds_nothing(self): self.assertEqual(add(0, 0), 0)
END
}

# A package of node with two tests of node:test, run by npm.
node_project() {
  sed -i 's|run = .*|run = ["npm", "test", "--silent"]|' ralph.toml
  printf '{"name":"a","version":"1.0.0","type":"commonjs","scripts":{"test":"node --test test/"}}\n' >package.json
  mkdir test; echo 'exports.add = (a, b) => a + b;' >src/add.js
  cat >test/add.test.js <<'END'
const test = require('node:test'), assert = require('node:assert'), { add } = require('../src/add.js');
test('adds', () => assert.equal(add(1, 2), 3));
test('adds nothing', () => assert.equal(add(0, 0), 0));
END
}

# A crate with two tests inside the source and one beside it.
rust_project() {
  sed -i 's|run = .*|run = ["cargo", "test", "--offline"]|' ralph.toml
  printf '[package]\nname = "sums"\nversion = "0.1.0"\nedition = "2021"\n' >Cargo.toml; printf 'target/\n' >.gitignore
  cat >src/lib.rs <<'END'
pub fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }

    #[test]
    fn adds_nothing() {
        assert_eq!(add(0, 0), 0);
    }
}
END
  printf 'use sums::add;\n\n#[test]\nfn adds_from_outside() {\n    assert_eq!(add(2, 2), 4);\n}\n' >tests/outside.rs
}

# The scripts, checked by a recipe that tells no names of tests.
make_project() {
  rm check.sh; cat >Makefile <<'END'
check:
	sh tests/adds.sh
	sh tests/zero.sh
END
  sed -i 's|run = .*|run = ["make", "-s", "check"]|' ralph.toml
}

# A second spec, or task, after the first.
second_item() {
  sed 's/# Multiply/# More/' ralph/specs/0001-mul.md >ralph/specs/0002-more.md; printf '
`src/more.sh` prints the product of its two arguments, too.
' >>ralph/specs/0002-more.md
}

# A commit with the work, on top of the one at which work begins, to which only this ref of the person's leads.
older_work() {
  mkdir -p .git/hooks; cat >.git/hooks/post-commit <<END
#!/bin/sh
rm .git/hooks/post-commit
export GIT_INDEX_FILE=.git/older
git read-tree HEAD
git update-index --add --cacheinfo "100644,\$(echo 'echo \$((\$1 * \$2))' | git hash-object -w --stdin),src/mul.sh"
git update-ref $1 "\$(git commit-tree -p HEAD -m older "\$(git write-tree)")"
rm .git/older
END
  chmod +x .git/hooks/post-commit
}
