package pgtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"time"
)

// renewSystemID gives a copied data folder a system identifier of its own, as initdb would have done. Without it all
// servers made from one template would pass for the same system, and a relay could not tell them apart.
//
// The identifier stands in two places: in global/pg_control (ControlFileData: first field, guarded by a CRC-32C that is
// the last field), and in the long header of the first page of each WAL segment (XLogLongPageHeaderData.xlp_sysid).
func renewSystemID(data string) error {
	id := newSystemID()
	control := filepath.Join(data, "global", "pg_control")
	err := patch(control, func(b []byte) error { return setControlID(b, id) })
	if err != nil {
		return fmt.Errorf("set system identifier: %w", err)
	}
	segments, err := filepath.Glob(filepath.Join(data, "pg_wal", "0000000100000000*"))
	if err != nil || len(segments) == 0 {
		return fmt.Errorf("set system identifier: no WAL segment in %s", data)
	}
	for _, segment := range segments {
		const sysid = 24 // behind XLogPageHeaderData, aligned to 8
		err := patch(segment, func(b []byte) error {
			binary.NativeEndian.PutUint64(b[sysid:], id)
			return nil
		})
		if err != nil {
			return fmt.Errorf("set system identifier: %w", err)
		}
	}
	return nil
}

// newSystemID follows initdb: seconds, microseconds and process id. Here the last 12 bits count nanoseconds, since one
// process makes several servers.
func newSystemID() uint64 {
	now := time.Now()
	return uint64(now.Unix())<<32 | uint64(now.Nanosecond()/1000)<<12 | uint64(os.Getpid()+now.Nanosecond())&0xFFF
}

// setControlID writes id into the head of a pg_control file. The length of ControlFileData differs between versions, so
// its end is found by its checksum.
func setControlID(b []byte, id uint64) error {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for end := 16; end+4 <= len(b); end += 4 {
		if crc32.Checksum(b[:end], castagnoli) == binary.NativeEndian.Uint32(b[end:]) {
			binary.NativeEndian.PutUint64(b, id)
			binary.NativeEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli))
			return nil
		}
	}
	return errors.New("no checksum in pg_control")
}

// patch changes the first bytes of a file in place.
func patch(path string, change func(head []byte) error) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	head := make([]byte, 512) // one disk sector: Postgres keeps ControlFileData within it
	if _, err := file.ReadAt(head, 0); err != nil {
		return err
	}
	if err := change(head); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = file.WriteAt(head, 0)
	return err
}
