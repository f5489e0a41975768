// Hands the microphone's first channel to the page, about eight times a second.
class PcmRecorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.size = Math.round(sampleRate / 8);
    this.buffer = new Float32Array(this.size);
    this.held = 0;
    this.port.onmessage = () => {
      this.port.postMessage(this.buffer.slice(0, this.held));
      this.port.postMessage("done");
    };
  }

  process([input]) {
    for (const sample of input?.[0] ?? []) {
      this.buffer[this.held++] = sample;
      if (this.held === this.size) {
        this.port.postMessage(this.buffer.slice());
        this.held = 0;
      }
    }
    return true;
  }
}

registerProcessor("pcm-recorder", PcmRecorder);
