// Package bench measures the fetcher command from outside, as a person would
// run it: real processes over loopback, compared with what the same machine does
// without us in the same minute. It holds tests only; run it with
//
//	make bench
//
// which is
//
//	go test -run '^$' -bench . -benchtime 1x -timeout 60m ./bench/
//
// # What is measured
//
//   - BenchmarkImport: sharing a file of 1 GiB, from the start of the process
//     to the ticket, beside BLAKE3 of the same file on all cores.
//   - BenchmarkOneSource: fetching 4 GiB from one process, beside the ceiling
//     and beside bare TLS.
//   - BenchmarkFourSources: 2 GiB from four processes, beside the ceiling from
//     four.
//   - BenchmarkSmallFiles: 10,000 files of 100 KiB, beside writing them from
//     memory.
//   - BenchmarkSlowSourceBesideAFastOne, BenchmarkStoppedSource: 1 GiB from a
//     source of 100 MB/s and another of 1 MB/s, or one that SIGSTOP stops at a
//     random moment, beside the fast one alone.
//   - BenchmarkLastHundredth: the end of 512 MiB from five sources of random rates.
//   - BenchmarkPeers: a file of 1 GiB beside the ceiling and what a user would
//     use instead: plain HTTP with SHA-256 in Go, curl, aria2 and
//     anacrolix/torrent. "make bench-peers" builds what is needed for the last.
//   - BenchmarkFarAway: one byte, and 48 MiB at 100 Mbit/s beside curl over TLS, from
//     a source 100 ms away in a network namespace of its own. It needs root and /dev/net/tun.
//   - BenchmarkResume: kill -9 in the middle, then the same command again.
//
// The ceiling is the least that could be called a verified fetch over libp2p: a
// bare stream (TCP, TLS, yamux) from memory, BLAKE3 of every 64 KiB compared
// with what it must be, the same writes to the same directory, one sync at the
// end. It has no manifest, requests, leases or resume. Bare TLS has no libp2p
// either and discards its bytes. Both are in the test binary, which runs
// itself as a child process.
//
// # How to read the figures
//
// CPU is user and system time of the whole process; for a source, what it used
// after it printed its ticket. Memory is anonymous memory (RssAnon), sampled
// twenty times a second. The wire is what the sources wrote to their sockets
// (wchar in /proc/PID/io), TLS and framing included. MB is 10^6 bytes.
//
// Rows are interleaved, round after round, and a ratio is taken inside one
// round; tables show medians and, in brackets, the smallest and largest.
//
// A virtual machine may hand free memory back to its host, and getting it again
// costs up to three seconds per GiB, charged to the process that writes a file next.
// With BENCH_HOT=1 the harness keeps as much memory of its own as will be
// written, and frees it just ahead of the writer. Without it, a row begins with
// the memory of the file that the row before has just deleted.
//
// ext4 skips inodes that were deleted within the last minutes, one by one:
// if many files have just been removed, making one may cost ten times as much.
// So nothing of BenchmarkSmallFiles is removed before its end; it takes room for
// all rounds, and should not be run again at once on the same file system.
//
// # Settings
//
//	BENCH_SIZE     bytes of the large files, "512MiB"; default as above
//	BENCH_ROUNDS   rounds; default 7, and 5 for small files and for resuming
//	BENCH_FILES    small files; default 10000
//	BENCH_DIR      where the data goes, on a real disk; default os.TempDir()
//	BENCH_HOT      1: keep memory warm
//	BENCH_CEILING  how the ceiling is run, as JSON over the defaults: {"Procs":2}; see ceiling_test.go
//	BENCH_PEERS    the command of bench/peers; without it there is no row of anacrolix/torrent
//	BENCH_FETCHER  a fetcher binary to measure; default: build ./cmd/fetcher
//
// A quick look: BENCH_SIZE=256MiB BENCH_ROUNDS=3 BENCH_FILES=1000 make bench.
// Linux only: it reads /proc.
package bench
