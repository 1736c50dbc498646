"""What only the kernel can do for a volume: a file system in a file, a loop device, a mount in a guest that runs.

Runs for a moment in a helper container (src/runtime/docker/volume-helper.ts says with which rights), with the volume's engine volume
under /volumes. Takes one JSON object as its argument, prints one. Every step may be repeated and may follow a crash of any step.

No program of a guest is ever executed: whoever is root in a guest could have put anything in its place. So the guest's namespace is
entered by a child that makes system calls only. The mount is made out here, where the loop device has a name, and then moved in.
"""
import ctypes, errno, fcntl, json, os, re, shutil, stat, struct, subprocess, sys

LOOP_SET_FD, LOOP_SET_STATUS64, LOOP_GET_STATUS64, LOOP_SET_CAPACITY, LOOP_CONFIGURE = 0x4C00, 0x4C04, 0x4C05, 0x4C07, 0x4C0A
LOOP_CTL_GET_FREE = 0x4C82
LO_FLAGS_AUTOCLEAR = 4
LOOP_INFO = struct.Struct("=QQQQQIIII64s64s32s16s")  # struct loop_info64, linux/loop.h
LOOP_CONFIG = struct.Struct(f"=II{LOOP_INFO.size}s64x")  # struct loop_config, linux/loop.h
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
MS_MOVE, MNT_DETACH = 8192, 2
CLONE_NEWNS = 0x20000
# One number on every architecture (Linux 5.2).
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, AT_FDCWD = 1, 4, -100

libc = ctypes.CDLL(None, use_errno=True)


CAP_SYS_RESOURCE = 24


class Refusal(Exception):
    """For people: why it cannot be done."""


class Gone(Exception):
    """The guest ended meanwhile."""


def called(name, result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return result


def run(*command, allowed=(0,)):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in allowed:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Refusal(f"{command[0]}: {said[-1] if said else f'exit status {done.returncode}'}")


def has_capability(number):
    with open("/proc/self/status") as file:
        return int(re.search(r"^CapEff:\s*(\w+)$", file.read(), re.M)[1], 16) >> number & 1 == 1


# --- the file ---

def locked(disk):
    """Held until this program ends, so that helpers of one volume take turns even when their Backlots do not know of each other."""
    lock = os.open(f"{os.path.dirname(disk)}/lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)


def put_in_place(made, disk):
    handle = os.open(made, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    os.rename(made, disk)


def make_disk(disk, size):
    """A file of exactly `size` bytes that takes no room, and an ext4 in all of it."""
    made = f"{disk}.new"
    with open(made, "wb") as file:
        file.truncate(size)
    # What is not written is a hole, and a hole is zero: neither inode tables nor journal need be written (10 GiB take 4 MB).
    run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_journal_init=1", made)
    put_in_place(made, disk)


def thaw(loop):
    """A copy that was cut off left its source frozen, and whoever writes there waits for ever."""
    with mounted(loop) as place:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(handle, FITHAW, 0)
        except OSError:
            pass  # it was not
        os.close(handle)


def copy_disk(source, disk):
    """A copy of one moment: what writes to the source waits meanwhile. Holes stay holes."""
    made = f"{disk}.new"
    copy = ("cp", "--sparse=always", "--reflink=auto", "-T", source, made)
    loop = loop_of(source)
    if loop is None:
        run(*copy)
    else:
        thaw(loop)
        with mounted(loop) as place:
            handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.ioctl(handle, FIFREEZE, 0)
            try:
                run(*copy)
            finally:
                fcntl.ioctl(handle, FITHAW, 0)
                os.close(handle)
    put_in_place(made, disk)


def file_system_size(disk):
    """Bytes, from the superblock (ext4: at 1024; block count at 4 and 0x150, the block's size at 24)."""
    with open(disk, "rb") as file:
        file.seek(1024)
        block = file.read(1024)
    low, = struct.unpack_from("<I", block, 4)
    high, = struct.unpack_from("<I", block, 0x150)
    log, = struct.unpack_from("<I", block, 24)
    return ((high << 32) + low) << (10 + log)


# --- loop devices ---

def node(name, kind, number):
    path = f"/dev/{name}"
    if not os.path.exists(path):
        os.mknod(path, 0o600 | kind, number)
    return path


def loop_path(index):
    return node(f"loop{index}", stat.S_IFBLK, os.makedev(7, index))


def status(handle):
    """What is known of a loop device (struct loop_info64); None when there is no file behind it."""
    info = bytearray(LOOP_INFO.size)
    try:
        fcntl.ioctl(handle, LOOP_GET_STATUS64, info)
    except OSError:
        return None
    return LOOP_INFO.unpack(info)


def backing(handle):
    """(device, inode) of the file behind a loop device; None when there is none. A path would not do: ours exists in this container only."""
    found = status(handle)
    return found and found[0:2]


def self_freeing(disk):
    return LOOP_INFO.pack(*[0] * 8, LO_FLAGS_AUTOCLEAR, os.path.basename(disk).encode()[:63], b"", b"", b"")


def frees_itself(handle):
    return status(handle)[8] & LO_FLAGS_AUTOCLEAR != 0


def adopt(handle, disk):
    """
    On kernels before 5.8 a device is bound first and told to free itself after. Who died in between left one that would stay: told so now, it
    goes when it is closed, unless it is mounted.
    """
    fcntl.ioctl(handle, LOOP_SET_STATUS64, self_freeing(disk))


def bind(handle, file, disk):
    """A loop device over a file that frees itself, in one step where the kernel has it (Linux 5.8). EBUSY: somebody else was faster."""
    try:
        fcntl.ioctl(handle, LOOP_CONFIGURE, LOOP_CONFIG.pack(file, 0, self_freeing(disk)))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTTY):
            raise
        fcntl.ioctl(handle, LOOP_SET_FD, file)
        adopt(handle, disk)


def loop_of(disk):
    """Number of the loop device over a file, or None."""
    found = os.stat(disk)
    adopted = False
    for name in os.listdir("/sys/block"):
        if not re.fullmatch(r"loop\d+", name) or not os.path.exists(f"/sys/block/{name}/loop"):
            continue
        try:
            handle = os.open(loop_path(int(name[4:])), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # just let go
        try:
            if backing(handle) == (found.st_dev, found.st_ino):
                if frees_itself(handle):
                    return int(name[4:])
                adopt(handle, disk)
                adopted = True
        finally:
            os.close(handle)
    return loop_of(disk) if adopted else None


def open_loop(disk):
    """
    The loop device over a file; made unless there is one. (handle, number). It frees itself when nothing holds it any more: neither this
    program nor a mount. So none is ever left behind, whatever dies when.
    """
    file = os.open(disk, os.O_RDWR | os.O_CLOEXEC)
    found = os.fstat(file)
    control = os.open(node("loop-control", stat.S_IFCHR, os.makedev(10, 237)), os.O_RDWR | os.O_CLOEXEC)
    for _ in range(50):
        index = loop_of(disk)
        is_new = index is None
        if is_new:
            index = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
        try:
            handle = os.open(loop_path(index), os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # on its way out
        try:
            if is_new:
                bind(handle, file, disk)
            if backing(handle) == (found.st_dev, found.st_ino):
                os.close(file)
                os.close(control)
                return handle, index
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENXIO):
                raise
        os.close(handle)
    raise Refusal("no loop device could be had")


class mounted:
    """A file system mounted out here, in this container, while it is worked on."""

    def __init__(self, loop):
        self.loop = loop
        self.place = f"/run/volume-{loop}"

    def __enter__(self):
        os.makedirs(self.place, exist_ok=True)
        # `discard` gives the room of deleted files back to the machine: the file has holes again.
        run("mount", "-t", "ext4", "-o", "nodev,discard", loop_path(self.loop), self.place)
        return self.place

    def __exit__(self, *_):
        run("umount", self.place)


# --- guests ---

def identity(path):
    found = os.stat(path)
    return (found.st_dev, found.st_ino)


def engine_root():
    """The root of the engine's own machine, as what started this container has it; None where it is not ours to see."""
    try:
        process, ours = os.getppid(), identity("/")
        while (root := identity(f"/proc/{process}/root/")) == ours:  # an init of the engine's in this container
            with open(f"/proc/{process}/status") as file:
                process = int(re.search(r"^PPid:\s*(\d+)$", file.read(), re.M)[1])
        return root
    except OSError:
        return None


def guests_running(containers):
    """
    Container id -> (a process of it, inode of its mount namespace), for those that have a process. At its start a container's first process
    is still at home in the engine's machine, and so is what `exec` is about to bring in: these are not in the guest yet.
    """
    found = {}
    outside = engine_root()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cgroup") as file:
                text = file.read()
            for container in containers:
                if container in text and container not in found and identity(f"/proc/{name}/root/") != outside:
                    found[container] = (int(name), os.stat(f"/proc/{name}/ns/mnt").st_ino)
        except OSError:
            continue  # it ended
    return found


def in_namespace(process, inode, work):
    """
    Runs `work` in a mount namespace, in a child that executes nothing. Returns what it returns (JSON). `process` shows where it is; by now
    that may be another one of the same number, so what is entered is compared.
    """
    try:
        namespace = os.open(f"/proc/{process}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        raise Gone()
    if os.fstat(namespace).st_ino != inode:
        os.close(namespace)
        raise Gone()
    outside = engine_root()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            called("setns", libc.setns(namespace, CLONE_NEWNS))
            # A guest that is about to start: what is made there now would be made in the engine's machine.
            answer = {"gone": True} if identity("/") == outside else {"value": work()}
        except OSError as error:
            answer = {"text": f"{error.filename}: {error.strerror}"}
        except BaseException as error:
            answer = {"text": str(error)}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    os.close(namespace)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    answer = json.loads(text or b'{"text": "the guest could not be entered"}')
    if "gone" in answer:
        raise Gone()
    if "value" in answer:
        return answer["value"]
    raise Refusal(answer["text"])


def mount_table(process):
    """((device, root inside it), path) of every mount that a process sees (proc_pid_mountinfo(5))."""
    try:
        with open(f"/proc/{process}/mountinfo") as file:
            rows = [line.split(" ") for line in file]
    except OSError:
        return []
    return [((row[2], plain(row[3])), plain(row[4])) for row in rows]


def plain(text):
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def remove_folder(path):
    try:
        os.rmdir(path)
    except OSError:
        pass  # it holds something, which is not ours to remove


def unmount(path, lazily):
    """False when something in the guest uses it. `lazily`: even so it goes, for new users now and wholly with its last one."""
    if libc.umount2(path.encode(), 0) == 0:
        remove_folder(path)
        return True
    code = ctypes.get_errno()
    if code != errno.EBUSY:
        raise OSError(code, os.strerror(code), path)
    if lazily:
        called(path, libc.umount2(path.encode(), MNT_DETACH))
        remove_folder(path)
    return False


def users_of(what, inode):
    """Names of a guest's processes that hold files on a volume, for people. Of a folder nobody can tell: its device is the engine's disk."""
    major, minor = (int(part) for part in what[0].split(":"))
    if major != 7:
        return []
    device = os.makedev(major, minor)
    names = set()
    for name in os.listdir("/proc"):
        try:
            if not name.isdigit() or os.stat(f"/proc/{name}/ns/mnt").st_ino != inode:
                continue
            held = [f"/proc/{name}/cwd", f"/proc/{name}/root", *(f"/proc/{name}/fd/{fd}" for fd in os.listdir(f"/proc/{name}/fd"))]
            if any(os.stat(path).st_dev == device for path in held):
                with open(f"/proc/{name}/comm") as file:
                    names.add(file.read().strip())
        except OSError:
            continue
    return sorted(names)


class Guest:
    """A guest that runs, and what of one volume is mounted in it."""

    def __init__(self, process, inode):
        self.process = process
        self.inode = inode

    def paths(self, what):
        return [path for found, path in mount_table(self.process) if found == what]

    def work(self, what):
        return in_namespace(self.process, self.inode, what)

    def refuse_taken(self, path):
        """A mount over another one would hide it."""
        if any(taken == path for _, taken in mount_table(self.process)):
            raise Refusal(f"{path} is a mount point of something else in this machine")

    def unmount(self, what, lazily):
        """Names of the processes that use it; it is unmounted all the same when `lazily`."""
        users = []
        for path in self.paths(what):
            held = users_of(what, self.inode)
            if not self.work(lambda path=path: unmount(path, lazily)):
                users += held or ["a process"]
        return users

    def move(self, old, new):
        """The volume's label changed: the mount gets its new name, and what is open on it stays open."""
        self.refuse_taken(new)

        def rename():
            os.makedirs(new, exist_ok=True)
            called("mount", libc.mount(old.encode(), new.encode(), None, MS_MOVE, None))
            remove_folder(old)

        self.work(rename)

    def mount(self, place, path):
        """What is mounted or lies at `place` out here comes to be at `path` in the guest as well."""
        self.refuse_taken(path)
        tree = called("open_tree", libc.syscall(SYS_OPEN_TREE, AT_FDCWD, place.encode(), OPEN_TREE_CLONE))

        def enter():
            os.makedirs(path, exist_ok=True)
            called("move_mount", libc.syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, path.encode(), MOVE_MOUNT_F_EMPTY_PATH))

        self.work(enter)
        os.close(tree)

    def have(self, what, path, bring):
        """Has it at `path`: brings it when it is not there, moves it when it is elsewhere."""
        paths = self.paths(what)
        if not paths:
            bring(self, path)
        elif path not in paths:
            self.move(paths[0], path)


# --- what is asked for ---

def grow_in_use(disk):
    handle, loop = open_loop(disk)
    fcntl.ioctl(handle, LOOP_SET_CAPACITY, 0)
    with mounted(loop):
        run("resize2fs", loop_path(loop))
    os.close(handle)


def grow_unused(disk):
    # 1: there was something to mend, and it is mended (e2fsck(8)).
    run("e2fsck", "-f", "-p", disk, allowed=(0, 1))
    run("resize2fs", disk)


def of_loop(loop):
    return (f"7:{loop}", "/")


def of_folder(folder):
    """Where a folder of an engine volume lies on the engine's disk, as every mount table names it."""
    base = os.path.dirname(folder)
    (device, root), = [what for what, path in mount_table("self") if path == base]
    return (device, f"{root.rstrip('/')}/{os.path.basename(folder)}")


def folder_of(disk):
    return f"{os.path.dirname(disk)}/data"


def ensure_folder(disk, source, guests, home, path):
    """Without loop devices: the engine volume's own folder takes the file system's place. Nothing bounds its size."""
    folder = folder_of(disk)
    if os.path.exists(disk):
        raise Refusal("it has a file system of its own, and this engine grants no loop device to mount it")
    if not os.path.isdir(folder):
        shutil.rmtree(f"{folder}.new", ignore_errors=True)
        if source is None:
            os.mkdir(f"{folder}.new", 0o755)
        else:
            run("cp", "-a", "--reflink=auto", "-T", folder_of(source), f"{folder}.new")
        os.rename(f"{folder}.new", folder)
    what = of_folder(folder)
    left = []
    for guest in guests.values():
        if guest is not home:
            left += guest.unmount(what, lazily=True)
    if home is not None:
        home.have(what, path, lambda guest, path: guest.mount(folder, path))
    return {"left": sorted(set(left)), "waits": []}


def ensure_disk(disk, source, size, guests, home, path):
    if not os.path.exists(disk):
        if source is None:
            make_disk(disk, size)
        else:
            copy_disk(source, disk)
    loop = loop_of(disk)
    left = []
    if loop is not None:
        thaw(loop)
        for guest in guests.values():
            if guest is not home:
                left += guest.unmount(of_loop(loop), lazily=True)
    if os.stat(disk).st_size < size:
        os.truncate(disk, size)
    waits = []
    if file_system_size(disk) < size:
        if has_capability(CAP_SYS_RESOURCE):
            grow_in_use(disk)
        else:
            # The kernel grows a file system in use for those alone who have that right. Without it, it is out of the guest for a moment.
            waits = home.unmount(of_loop(loop), lazily=False) if home and loop is not None else []
            if loop_of(disk) is None:
                grow_unused(disk)
            elif not waits:
                waits = ["a process"]

    def bring(guest, path):
        with mounted(loop) as place:
            guest.mount(place, path)

    if home is not None:
        handle, loop = open_loop(disk)
        home.have(of_loop(loop), path, bring)
        os.close(handle)
    return {"left": sorted(set(left)), "waits": sorted(set(waits))}


def ensure(asked):
    """
    Makes a volume exist with its size, mounted at `path` in the container `into` and nowhere else (`into` null: nowhere).
    `containers` are all of this Backlot's machines. `sized` false: without loop devices.
    """
    disk, source, into, path = (asked[name] for name in ("disk", "copyOf", "into", "path"))
    for each in sorted({disk, source or disk}):
        locked(each)
    guests = {container: Guest(*found) for container, found in guests_running(asked["containers"]).items()}
    home = guests.get(into)
    is_folder = not asked["sized"] or os.path.isdir(folder_of(source or disk)) and not os.path.exists(disk)
    answer = (
        ensure_folder(disk, source, guests, home, path) if is_folder else ensure_disk(disk, source, asked["bytes"], guests, home, path)
    )
    if into is not None and home is None:
        raise Gone()
    return answer


def release(asked):
    """Unmounts a volume everywhere, before its data goes."""
    disk = asked["disk"]
    locked(disk)
    loop = loop_of(disk) if os.path.exists(disk) else None
    if loop is not None:
        thaw(loop)
    whats = [of_loop(loop)] if loop is not None else []
    if os.path.isdir(folder_of(disk)):
        whats.append(of_folder(folder_of(disk)))
    for found in guests_running(asked["containers"]).values():
        for what in whats:
            Guest(*found).unmount(what, lazily=True)
    return {"left": [], "waits": []}


def probe(asked):
    """All that is needed, tried: on a file system of 1 MiB, or (`sized` false) on a folder."""
    if asked["sized"]:
        disk = "/run/probe"
        make_disk(disk, 1 << 20)
        handle, loop = open_loop(disk)
        with mounted(loop) as place:
            os.close(called("open_tree", libc.syscall(SYS_OPEN_TREE, AT_FDCWD, place.encode(), OPEN_TREE_CLONE)))
        os.close(handle)
    else:
        os.close(called("open_tree", libc.syscall(SYS_OPEN_TREE, AT_FDCWD, b"/run", OPEN_TREE_CLONE)))
    in_namespace("self", os.stat("/proc/self/ns/mnt").st_ino, lambda: None)
    return {"left": [], "waits": []}


try:
    asked = json.loads(sys.argv[1])
    said = {"ensure": ensure, "release": release, "probe": probe}[asked["do"]](asked)
except Gone:
    said = {"gone": True}
except OSError as error:
    said = {"error": f"{error.filename}: {error.strerror}" if error.filename else error.strerror}
except Exception as error:
    said = {"error": str(error)}
print(json.dumps(said))
