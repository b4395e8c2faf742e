// Package watch shows a running run: a tree of its stages and groups, with the clusters in
// flight, failures, the reasons for waiting, decisions, and the expected end.
//
// [Frame] draws a [Model], which is a stored run at a moment, as text with a width and a height.
// It is a pure function, and a host with its own page or log may call it. [Run] is the program
// around it: it reads a [Source], for example a *fleet.Engine, until the run and its rollback run,
// if any, have ended. On a terminal it draws. Elsewhere it prints one line for each event in the
// form of [Line], without folding and colours.
//
// # The content of a frame
//
// A frame never exceeds its number of lines, whatever the size of the fleet. The head, the
// current stage and the footer are always there. Stages that are done and future stages have one
// line each; if there are many, distant stages share a line. The current stage shows its groups
// with failures, clusters in flight or reasons for waiting. Lists share the rest of the height:
// reasons for waiting, failures, pending retries, clusters in flight, and gates. Each list ends
// with the number of omitted entries. So 10,000 clusters fit on 24 lines.
//
// # Dependencies
//
// Bubble Tea handles the terminal, and Lip Gloss colours and the widths of text: raw mode, which
// must be undone on every exit; the size of the window; a full redraw after Ctrl-Z; keys that
// arrive in pieces; and writing only differences. A hand-written redraw left stale frames in each
// of these cases. The program uses the alternate screen, so the previous content of the terminal
// is restored afterwards, followed by the last frame.
//
// The package is a separate module: a host that watches needs no command line, and a host that
// does not watch needs neither library.
//
// # Concurrency
//
// Frame and Line may be called concurrently. [Run] owns the terminal until it returns.
package watch
