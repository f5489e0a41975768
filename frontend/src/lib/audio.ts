// Record the microphone as a WAV file of 16-bit PCM, which every STT provider accepts.
const RATE = 16_000;

export class Recorder {
  #context: AudioContext;
  #stream: MediaStream;
  #node: AudioWorkletNode;
  #pieces: Float32Array[] = [];
  #ended: Promise<void>;

  private constructor(context: AudioContext, stream: MediaStream, node: AudioWorkletNode, level: (value: number) => void) {
    this.#context = context;
    this.#stream = stream;
    this.#node = node;
    this.#ended = new Promise((resolve) => {
      node.port.onmessage = ({ data }: MessageEvent<Float32Array | "done">) => {
        if (data === "done") return resolve();
        this.#pieces.push(data);
        level(Math.sqrt(data.reduce((sum, sample) => sum + sample * sample, 0) / Math.max(1, data.length)));
      };
    });
  }

  /** `level` is called with the loudness, 0 to 1, when it changes. Throws an Error that says what is wrong. */
  static async start(level: (value: number) => void): Promise<Recorder> {
    if (!navigator.mediaDevices?.getUserMedia) throw new Error("The browser gives the microphone only to HTTPS pages and to localhost.");
    const raw = { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: false };
    let stream: MediaStream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: raw });
    } catch (error) {
      throw new Error(`No microphone: ${error instanceof Error ? error.message : String(error)}`);
    }
    const { context, source } = opened(stream);
    await context.audioWorklet.addModule(new URL("../worklets/pcm-recorder.js", import.meta.url));
    const node = new AudioWorkletNode(context, "pcm-recorder", { numberOfOutputs: 0 });
    source.connect(node);
    return new Recorder(context, stream, node, level);
  }

  async stop(): Promise<File> {
    this.#node.port.postMessage("stop");
    await this.#ended;
    for (const track of this.#stream.getTracks()) track.stop();
    const rate = this.#context.sampleRate;
    await this.#context.close();
    return new File([wav(this.#pieces, rate)], "microphone.wav", { type: "audio/wav" });
  }
}

/** Open at 16 kHz where the browser can resample the microphone, else at its native rate. */
function opened(stream: MediaStream): { context: AudioContext; source: MediaStreamAudioSourceNode } {
  const wanted = new AudioContext({ sampleRate: RATE });
  try {
    return { context: wanted, source: wanted.createMediaStreamSource(stream) };
  } catch {
    void wanted.close();
    const context = new AudioContext();
    return { context, source: context.createMediaStreamSource(stream) };
  }
}

function wav(pieces: readonly Float32Array[], rate: number): ArrayBuffer {
  const samples = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const file = new ArrayBuffer(44 + samples * 2);
  const view = new DataView(file);
  const text = (at: number, value: string): void => {
    for (let index = 0; index < value.length; index++) view.setUint8(at + index, value.charCodeAt(index));
  };
  text(0, "RIFF");
  view.setUint32(4, 36 + samples * 2, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, samples * 2, true);
  let at = 44;
  for (const piece of pieces)
    for (const sample of piece) {
      view.setInt16(at, Math.max(-1, Math.min(1, sample)) * 0x7fff, true);
      at += 2;
    }
  return file;
}
