// Package watch shows a run while it goes on: a tree of its stages and groups, with what is in flight, what failed,
// what waits for what, who decided, and when it will end.
//
// [Frame] draws a [Model], which is the run as it is stored and a moment, as text of a width and a height: it is a
// pure function, and a host that has a page or a log of its own may call it. [Run] is the program around it: it
// reads a [Source], which a *fleet.Engine is, until the run has ended, and the run that rolls it back if there is one. On a terminal it draws; elsewhere it prints
// one line for each event, as [Line] writes it, folds nothing and colours nothing.
//
// # What a frame keeps
//
// A frame has at most as many lines as it is given, whatever the size of the fleet. The head, the current stage and
// the footer are always there. Stages that are done and stages to come have one line each, and where they are many
// the distant ones share a line. Of the groups of the current stage those stay that have failures, clusters in
// flight or something to wait for. What is left of the height is dealt out between the lists: what the run waits
// for, what failed, what is to be tried again, what is in flight, and the gates; each ends with how many more there
// are. So 10,000 clusters fit on 24 lines.
//
// # Why a library draws
//
// The terminal is handled by Bubble Tea, and colours and the widths of text are Lip Gloss's: raw mode, which has to
// be undone on every way out; the size of the window; Ctrl-Z, after which everything is drawn afresh; keys that
// arrive in pieces; and writing only what differs. A hand-written redraw left stale frames in each of these
// cases. The program uses the alternate screen, so what was there before is there again afterwards, followed by
// the last frame.
//
// The package is a module of its own: a host that watches needs no command line, and one that does not watch
// needs neither library.
//
// # Concurrency
//
// Frame and Line may be called concurrently. [Run] owns the terminal until it returns.
package watch
