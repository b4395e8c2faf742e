// Package docs verifies the examples in the documents of the repository. Its tests read
// README.md, the other documents beside it, and those in docs and in its directories, and check
// every block of code in them:
//
//   - A block of Go is a verbatim part of a file that is compiled and run by a test: of an
//     example below examples, of an example_test.go, or of snippets_test.go here. So an example
//     in a document is changed in its tested file.
//   - A block of sh is run by bash, in a copy of the repository and with the command slipway on
//     the PATH. It has to end with 0, or with the code that a comment in it names: exits with 3.
//     If a block without a language follows directly, the output must contain each of its lines,
//     in this order; … in a line stands for any text. The blocks of a page in docs/tutorials are
//     one script, so that a block continues where the block before it ended.
//   - A block of console shows commands that no test can run. It is listed in the test with the
//     reason.
//
// Blocks of other languages are not checked.
package docs
