"""Soft attention and an LSTM: Caption-LSTM (Xu et al. 2015, *Show, Attend and Tell*).

Equations are those of the paper. What it leaves open is as in its authors' code: tanh in f_att and
in f_init, of one layer each, and dropout of the LSTM's state and before the words.

Shapes: B images, M patches a_i of F features, L tokens, N predicted ones, R = B*K sequences, D
width of words, attention and LSTM.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cxrflow.encoders.attention import Dropout
from cxrflow.encoders.captioning import Caption, Captioner, CaptionerConfig
from cxrflow.encoders.settings import LstmCaptioningSettings


class State(NamedTuple):
    """Of the LSTM after a word: [R, D] both."""

    hidden: Tensor
    memory: Tensor


class AttendedPatches(NamedTuple):
    """Features of the patches, and their keys, which are the same at every word."""

    features: Tensor  # [B, M, F]
    keys: Tensor  # [B, M, D]


class Decoder(Captioner):
    """Looks at the image anew at every word."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        settings = config.captioning
        assert isinstance(settings, LstmCaptioningSettings)
        width, features = settings.width, config.features
        self.words = nn.Embedding(config.vocab_size, width)  # E
        self.first_hidden = nn.Linear(features, width)  # f_init,h
        self.first_memory = nn.Linear(features, width)  # f_init,c
        self.attention_patch = nn.Linear(features, width)  # f_att
        self.attention_hidden = nn.Linear(width, width, bias=False)
        self.attention = nn.Linear(width, 1)
        self.gate = nn.Linear(width, 1)  # f_beta
        self.lstm = nn.LSTMCell(width + features, width)
        self.of_hidden = nn.Linear(width, width, bias=False)  # L_h
        self.of_context = nn.Linear(features, width, bias=False)  # L_z
        self.cls = nn.Linear(width, config.vocab_size)  # L_o
        self.dropout = Dropout(settings.dropout)

    def forward(self, input_ids_BL: Tensor, patches_BMF: Tensor, positions_N: Tensor) -> Caption:
        words_BLD = self.words(input_ids_BL)
        patches, state = self.look(patches_BMF), self.start(patches_BMF)
        hidden, contexts, weights = [], [], []
        for place in range(input_ids_BL.shape[1]):
            state, context_BF, weight_BM = self.step(words_BLD[:, place], state, patches)
            hidden.append(state.hidden)
            contexts.append(context_BF)
            weights.append(weight_BM)
        inputs = (words_BLD, torch.stack(hidden, dim=1), torch.stack(contexts, dim=1))
        output_ND = self.output(*(states.flatten(0, 1)[positions_N] for states in inputs))
        # Only where a word is predicted: not at the end, not in padding.
        predicts = input_ids_BL.new_zeros(input_ids_BL.numel()).index_fill(0, positions_N, 1)
        weight_BLM = torch.stack(weights, dim=1) * predicts.view(*input_ids_BL.shape, 1)
        return Caption(self.cls(output_ND), weight_BLM.sum(1))

    def look(self, patches_BMF: Tensor) -> AttendedPatches:
        """Return the patches with their keys."""
        return AttendedPatches(patches_BMF, self.attention_patch(patches_BMF))

    def start(self, patches_BMF: Tensor) -> State:
        """From the mean of the patches (section 3.1.2)."""
        mean_BF = patches_BMF.mean(1)
        return State(self.first_hidden(mean_BF).tanh(), self.first_memory(mean_BF).tanh())

    def step(
        self, word_RD: Tensor, before: State, patches: AttendedPatches
    ) -> tuple[State, Tensor, Tensor]:
        """Read a word: the state, the context [R, F] and the weights [R, M] of what it looked at.

        alpha_t = softmax(f_att(a_i, h_{t-1})) (Eq. 4 to 6), z_t = beta_t sum of alpha_ti a_i with
        beta_t = sigmoid(f_beta(h_{t-1})) (section 4.2.1), and the LSTM (Eq. 1 to 3).
        """
        images = len(patches.features)
        query_BKD = self.attention_hidden(before.hidden).unflatten(0, (images, -1))
        energy_BKM = self.attention((patches.keys[:, None] + query_BKD[:, :, None]).tanh()).squeeze(
            -1
        )
        weight_BKM = energy_BKM.softmax(dim=-1)
        context_RF = (weight_BKM @ patches.features).flatten(0, 1)
        context_RF = self.gate(before.hidden).sigmoid() * context_RF
        state = State(*self.lstm(torch.cat([word_RD, context_RF], dim=1), before))
        return state, context_RF, weight_BKM.flatten(0, 1)

    def output(self, word: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        """Deep output, E y_{t-1} + L_h h_t + L_z z_t (Eq. 7), before L_o: [..., D]."""
        states = word + self.of_hidden(self.dropout(hidden)) + self.of_context(context)
        return self.dropout(states)

    def reading(self, patches_BMF: Tensor) -> "Reading":
        return Reading(self, patches_BMF)


class Reading:
    """The LSTM's states of R sequences."""

    def __init__(self, decoder: Decoder, patches_BMF: Tensor) -> None:
        self.decoder, self.patches = decoder, decoder.look(patches_BMF)
        self.state = decoder.start(patches_BMF)

    def next(self, token_R: Tensor) -> Tensor:
        word_RD = self.decoder.words(token_R)
        self.state, context_RF, _ = self.decoder.step(word_RD, self.state, self.patches)
        return self.decoder.output(word_RD, self.state.hidden, context_RF)

    def take(self, rows_R: Tensor, images_B: Tensor | None = None) -> None:
        self.state = State(*(states[rows_R] for states in self.state))
        if images_B is not None:
            self.patches = AttendedPatches(*(states[images_B] for states in self.patches))
