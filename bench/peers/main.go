// Command peers runs the program that fetcher is compared with and that has no command of its own:
// anacrolix/torrent. It is a separate module, so that nobody who builds fetcher pays
// for it.
//
//	peers seed FILE               serves a file until SIGTERM; prints TORRENT ADDR
//	peers fetch TORRENT ADDR DIR  fetches it into a folder, verified
package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/anacrolix/torrent"
	"github.com/anacrolix/torrent/bencode"
	"github.com/anacrolix/torrent/metainfo"
	"github.com/anacrolix/torrent/storage"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "seed":
		return seed(args[1])
	case len(args) == 4 && args[0] == "fetch":
		return fetch(args[1], args[2], args[3])
	}
	return errors.New("usage: peers seed FILE | peers fetch TORRENT ADDR DIR")
}

// client is a client that finds no peers by itself. Files are in dir.
func client(dir string, seeds bool) (*torrent.Client, error) {
	cfg := torrent.NewDefaultClientConfig()
	cfg.NoDHT, cfg.DisableUTP, cfg.DisablePEX, cfg.DisableTrackers, cfg.NoDefaultPortForwarding = true, true, true, true, true
	cfg.DisableIPv6, cfg.DisableWebtorrent, cfg.DisableWebseeds = true, true, true
	cfg.ListenHost, cfg.ListenPort = func(string) string { return "127.0.0.1" }, 0
	cfg.Seed = seeds
	cfg.DefaultStorage = storage.NewFileOpts(storage.NewFileClientOpts{ClientBaseDir: dir, PieceCompletion: storage.NewMapPieceCompletion()})
	return torrent.NewClient(cfg)
}

func seed(file string) error {
	info := metainfo.Info{PieceLength: 1 << 20}
	if err := info.BuildFromFilePath(file); err != nil {
		return err
	}
	var m metainfo.MetaInfo
	var err error
	if m.InfoBytes, err = bencode.Marshal(info); err != nil {
		return err
	}
	c, err := client(filepath.Dir(file), true)
	if err != nil {
		return err
	}
	defer c.Close()
	t, err := c.AddTorrent(&m)
	if err != nil {
		return err
	}
	t.VerifyData()
	<-t.Complete().On()
	at, err := os.CreateTemp("", "*.torrent")
	if err != nil {
		return err
	}
	defer os.Remove(at.Name())
	if err := errors.Join(m.Write(at), at.Close()); err != nil {
		return err
	}
	fmt.Println(at.Name(), c.ListenAddrs()[0])
	end := make(chan os.Signal, 1)
	signal.Notify(end, os.Interrupt, syscall.SIGTERM)
	<-end
	return nil
}

func fetch(file, addr, dir string) error {
	m, err := metainfo.LoadFromFile(file)
	if err != nil {
		return err
	}
	c, err := client(dir, false)
	if err != nil {
		return err
	}
	defer c.Close()
	t, err := c.AddTorrent(m)
	if err != nil {
		return err
	}
	t.AddPeers([]torrent.PeerInfo{{Addr: stringAddr(addr), Trusted: true}})
	t.DownloadAll()
	<-t.Complete().On()
	return nil
}

// stringAddr is host:port.
type stringAddr string

func (a stringAddr) String() string { return string(a) }
