"""ask.py PORT STOP NAME: sends DNS queries for the TXT record of NAME until the file STOP exists and more than 100 have
been answered, or none of the last 30. Each answer must hold the text of a version of the zone: `vN` four times. Prints the
number of answers."""
import os, re, socket, struct, sys

port, stop, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
question = b"".join(bytes([len(label)]) + label.encode() for label in name.rstrip(".").split(".")) + b"\0\0\x10\0\1"
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.settimeout(1)
answers = number = missed = 0
while not os.path.exists(stop) or answers <= 100 and missed < 30:
    number = number % 65535 + 1
    server.sendto(struct.pack(">6H", number, 0, 1, 0, 0, 0) + question, ("127.0.0.1", port))
    try:
        answer = server.recv(4096)
    except OSError:  # the server is starting or busy
        missed += 1
        continue
    got, flags, _, count = struct.unpack(">4H", answer[:8])
    if got != number or flags & 15:
        continue  # late, or no zone yet
    if count != 1 or not re.search(rb"(v\d+-)\1\1\1", answer):
        sys.exit(f"a broken answer: {answer!r}")
    answers += 1
    missed = 0
print(answers)
