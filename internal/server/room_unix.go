//go:build unix

package server

import "golang.org/x/sys/unix"

func roomOn(dir string) (room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return room{}, err
	}
	size := int64(st.Bsize)
	return room{free: int64(st.Bavail) * size, total: int64(st.Blocks) * size}, nil
}
