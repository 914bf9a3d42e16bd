package outbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math"
)

// Versions of the transcoder. The second one has its gain upside down.
const (
	firstVersion = 1
	wrongVersion = 2
	nextVersion  = 3
)

// What a video sounds like before it is transcoded.
const (
	sampleRate = 16000
	samples    = sampleRate / 4
	loudness   = 20000
)

// tone is the sound of a version of a video: a tone of its own, as a WAV file.
func tone(video string, version int) []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(video))
	hertz := 220 + float64(h.Sum32()%660) + 20*float64(version)
	sound := make([]int16, samples)
	for i := range sound {
		sound[i] = int16(loudness * math.Sin(2*math.Pi*hertz*float64(i)/sampleRate))
	}
	return wav(sampleRate, sound)
}

// transcode halves the rate and the loudness of a WAV file, and fades it out. The wrong version doubles the
// loudness, and so cuts what is too loud.
func transcode(version int, file []byte) ([]byte, error) {
	rate, sound, err := parseWAV(file)
	if err != nil {
		return nil, err
	}
	gain := 0.5
	if version == wrongVersion {
		gain = 1 / gain
	}
	half := make([]int16, len(sound)/2)
	for i := range half {
		fade := min(1, 8*float64(len(half)-i)/float64(len(half)))
		v := (float64(sound[2*i]) + float64(sound[2*i+1])) / 2 * gain * fade
		half[i] = int16(max(math.MinInt16, min(math.MaxInt16, math.Round(v))))
	}
	return wav(rate/2, half), nil
}

// A wavHeader is what stands before the samples: one channel of 16 bits.
type wavHeader struct {
	RIFF          [4]byte
	Size          uint32
	WAVE, Fmt     [4]byte
	FmtSize       uint32
	Format, Chans uint16
	Rate, Bytes   uint32
	Align, Bits   uint16
	Data          [4]byte
	DataSize      uint32
}

func wav(rate uint32, sound []int16) []byte {
	size := uint32(2 * len(sound))
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, wavHeader{ // a buffer takes everything
		RIFF: [4]byte([]byte("RIFF")), Size: 36 + size, WAVE: [4]byte([]byte("WAVE")), Fmt: [4]byte([]byte("fmt ")),
		FmtSize: 16, Format: 1, Chans: 1, Rate: rate, Bytes: 2 * rate, Align: 2, Bits: 16,
		Data: [4]byte([]byte("data")), DataSize: size,
	})
	_ = binary.Write(&b, binary.LittleEndian, sound)
	return b.Bytes()
}

// parseWAV reads what wav writes.
func parseWAV(file []byte) (rate uint32, sound []int16, err error) {
	var h wavHeader
	r := bytes.NewReader(file)
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		return 0, nil, err
	}
	if string(h.RIFF[:]) != "RIFF" || string(h.WAVE[:]) != "WAVE" || h.Bits != 16 || h.Chans != 1 || int(h.DataSize) != r.Len() {
		return 0, nil, errors.New("this is no WAV file of one channel and 16 bits")
	}
	sound = make([]int16, h.DataSize/2)
	return h.Rate, sound, binary.Read(r, binary.LittleEndian, sound)
}
